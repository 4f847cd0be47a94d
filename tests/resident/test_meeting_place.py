"""The meeting place: it follows from user and repository, and is used only where nobody else may enter."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from loopty.resident.meeting_place import MeetingPlace, find_git_dir
from loopty.resident.request import VERB, VerbRequest


def place_in(folder: Path) -> MeetingPlace:
    place = MeetingPlace("/repository/.git")
    place.folder = str(folder)
    return place


def test_a_folder_of_this_user_alone_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "loopty"
    assert not place_in(folder).is_private()
    folder.mkdir(mode=0o700)
    assert place_in(folder).is_private()


def test_a_link_or_an_open_folder_is_not_private(tmp_path: Path) -> None:
    folder = tmp_path / "loopty"
    folder.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(folder)
    assert not place_in(tmp_path / "link").is_private()
    folder.chmod(0o750)
    assert not place_in(folder).is_private()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_private(tmp_path: Path) -> None:
    folder = tmp_path / "loopty"
    folder.mkdir(mode=0o700)
    os.chown(folder, 61_000, 61_000)
    assert not place_in(folder).is_private()


def test_all_working_trees_of_a_repository_share_one_place(tmp_path: Path) -> None:
    def git(*args: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        subprocess.run(["git", *identity, *args], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "repo")
    git("-C", "repo", "commit", "-q", "--allow-empty", "-m", "first")
    git("-C", "repo", "worktree", "add", "-q", "../further")
    (tmp_path / "repo/below").mkdir()
    expected = str(tmp_path / "repo/.git")
    assert find_git_dir(str(tmp_path / "repo/below")) == find_git_dir(str(tmp_path / "further")) == expected
    assert find_git_dir("/") is None


def test_a_request_survives_the_way() -> None:
    request = VerbRequest(VERB, b"/a/.git", b"here", 0o027, [b"new", b"-m", b"\xff"], [b"A=1", b"B="])
    raw = request.to_bytes()
    again = VerbRequest.from_bytes(raw[8:])
    assert vars(again) == vars(request)
    assert int.from_bytes(raw[:8], "big") == len(raw) - 8


@pytest.mark.parametrize("raw", [b"", b"\0" * 4, b"verb\0a\0b\x00022\x009\0x\0", b"verb\0a\0b\0x\x000\0", b"verb"])
def test_what_is_no_request_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"request|literal"):
        VerbRequest.from_bytes(raw)
