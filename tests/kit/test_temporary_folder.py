"""Temporary folders of killed processes go with the next loopty, and nobody else's ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from loopty.kit import temporary_folder as module
from loopty.kit.temporary_folder import is_abandoned, make_temporary_folder, temporary_folder

CHILD = """
import sys, time
from loopty.kit.temporary_folder import make_temporary_folder
folder = make_temporary_folder(sys.argv[1])
(folder / "deep").mkdir()
(folder / "deep" / "file").write_text("left")
(folder / "deep").chmod(0)
print(folder, flush=True)
time.sleep(600)
"""


@pytest.fixture
def top(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    module._remove_abandoned.cache_clear()
    return tmp_path


def start_child(purpose: str) -> tuple[subprocess.Popen[str], Path]:
    child = subprocess.Popen([sys.executable, "-c", CHILD, purpose], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    return child, Path(child.stdout.readline().strip())


def kill(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def test_a_folder_is_for_its_user_alone_and_goes_with_its_block(top):
    with temporary_folder("replay") as folder:
        assert folder.parent == top
        assert folder.name.startswith("loopty-replay-")
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").write_text("x")
    assert list(top.iterdir()) == []


@pytest.mark.usefixtures("top")
@pytest.mark.parametrize("purpose", ["replay", "artifact", "index"])
def test_the_folder_of_a_killed_process_goes_with_the_next_one(purpose):
    child, folder = start_child(purpose)
    try:
        make_temporary_folder("first")
        assert folder.exists()
        assert not is_abandoned(folder.name)
    finally:
        kill(child)
    assert is_abandoned(folder.name)
    module._remove_abandoned.cache_clear()
    second = make_temporary_folder("second")
    assert not folder.exists()
    assert second.exists()


@pytest.mark.usefixtures("top")
def test_a_process_looks_only_once():
    make_temporary_folder("first")
    child, folder = start_child("index")
    kill(child)
    make_temporary_folder("second")
    assert folder.exists()


def test_links_files_and_other_names_stay(top):
    child, folder = start_child("index")
    kill(child)
    kept = top / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    link, file = [folder.name[:-1] + end for end in "012" if end != folder.name[-1]][:2]
    (top / link).symlink_to(kept)
    (top / file).write_text("a file")
    others = [
        "loopty-index-12",
        "loopty-1000",
        "loopty-index-1-4194305-1-ab",
        f"x{folder.name}",
        f"{folder.name}.txt",
    ]
    for name in others:
        (top / name).mkdir()
    make_temporary_folder("second")
    left = {path.name for path in top.iterdir()}
    assert {link, file, "kept", *others} <= left
    assert folder.name not in left or folder.name in (link, file)
    assert (kept / "file").read_text() == "x"


@pytest.mark.usefixtures("top")
def test_the_folder_of_another_user_stays(monkeypatch):
    child, folder = start_child("index")
    kill(child)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    make_temporary_folder("second")
    assert folder.exists()


@pytest.mark.usefixtures("top")
def test_a_link_inside_is_not_followed(tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "file").write_text("mine")
    child, folder = start_child("index")
    kill(child)
    (folder / "link").symlink_to(elsewhere)
    make_temporary_folder("second")
    assert not folder.exists()
    assert (elsewhere / "file").read_text() == "mine"
