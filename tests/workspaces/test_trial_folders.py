"""A trial's folder may serve the next trial, and nothing in it tells what the trial before has done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces import trial_folders
from loopty.workspaces.trial_folders import IN_USE, TrialFolders

INSIDE = ["artifacts", "checkpoint", "traces"]


@pytest.fixture
def trials(tmp_path: Path) -> SafeFolder:
    return SafeFolder(tmp_path, ("trials",))


def wait_for_next_date() -> None:
    """Until any file system gives changes another date."""
    time.sleep(0.025)


def names(path: Path) -> list[str]:
    return sorted(inside.name for inside in path.iterdir())


def run(
    folders: TrialFolders, trials: SafeFolder, name: str, act: Callable[[Path], object] = lambda _: None
) -> Path:
    """A trial that does this with its folder."""
    wait_for_next_date()
    folder = trials.below(name)
    folders.make(folder, name.encode())
    path = folder.shown_path
    assert (path / "in/params.json").read_bytes() == name.encode()
    assert names(path) == ["in", "out"]
    assert names(path / "out") == INSIDE
    assert not any(names(path / "out" / inside) for inside in INSIDE)
    wait_for_next_date()
    act(path)
    folders.end(folder)
    return path


def inodes(path: Path) -> dict[str, int]:
    return {
        name: (path / name).stat().st_ino for name in (".", "in", "in/params.json", *(f"out/{n}" for n in INSIDE))
    }


def test_the_next_trial_gets_the_folder_under_its_own_name(trials: SafeFolder) -> None:
    folders, seen = TrialFolders(trials, None, keeps=True), []
    for number in range(6):
        run(
            folders, trials, f"1-{number}", lambda path: (seen.append(inodes(path)), (path / "out/result").touch())
        )
    assert trials.names() == ["1-5"]
    assert seen[2] == seen[3] == seen[4] == seen[5]
    assert "1-5" in IN_USE
    assert "1-4" not in IN_USE
    folders._remove_idle()
    assert trials.names() == []
    assert not IN_USE & {f"1-{number}" for number in range(6)}


def test_one_trial_alone_leaves_nothing(trials: SafeFolder) -> None:
    run(TrialFolders(trials, None, keeps=True), trials, "1-1")
    assert trials.names() == []


def test_without_a_sandbox_that_ends_everything_no_folder_is_used_again(trials: SafeFolder) -> None:
    folders = TrialFolders(trials, None, keeps=False)
    for number in range(3):
        run(folders, trials, f"1-{number}")
        assert trials.names() == []


TOUCH: dict[str, Callable[[Path], object]] = {
    "adds a file": lambda path: (path / "x").touch(),
    "adds and removes a file": lambda path: ((path / "x").touch(), (path / "x").unlink()),
    "changes the mode": lambda path: path.chmod(0o700),
    "changes the mode and back": lambda path: (path.chmod(0o700), path.chmod(0o755)),
    "sets an attribute": lambda path: os.setxattr(path, "user.x", b"1"),
    "sets the times": lambda path: os.utime(path, (1, 1)),
    "replaces it": lambda path: (path.rmdir(), path.mkdir()),
    "replaces it by a link": lambda path: (path.rmdir(), path.symlink_to("/etc")),
    "replaces it by a file": lambda path: (path.rmdir(), path.touch()),
    "removes it": lambda path: path.rmdir(),
}


@pytest.mark.parametrize("touch", TOUCH)
def test_a_folder_that_a_trial_touches_is_made_anew(trials: SafeFolder, touch: str) -> None:
    folders, seen = TrialFolders(trials, None, keeps=True), []
    for number in range(3):
        run(folders, trials, f"1-{number}")
    run(folders, trials, "1-3", lambda path: (seen.append(inodes(path)), TOUCH[touch](path / "out/traces")))

    def look(path: Path) -> None:
        seen.append(inodes(path))
        status = (path / "out/traces").lstat()
        assert (status.st_mode, status.st_size) == ((path / "out/artifacts").lstat().st_mode, 4096)
        assert os.listxattr(path / "out/traces") == []
        assert status.st_mtime > time.time() - 60

    run(folders, trials, "1-4", look)
    assert seen[1]["out/artifacts"] == seen[0]["out/artifacts"]


def test_what_else_a_trial_leaves_goes(trials: SafeFolder, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    folders = TrialFolders(trials, None, keeps=True)

    def act(path: Path) -> None:
        (path / "out/deep/er").mkdir(parents=True)
        (path / "out/link").symlink_to(tmp_path / "mine")
        (path / "out/traces/task_1.json").write_text("{}")
        (path / "tree").mkdir()
        (path / "tree/file").touch()
        os.mkfifo(path / "out/fifo")

    for number in range(4):
        run(folders, trials, f"1-{number}", act)
    assert (tmp_path / "mine").read_text() == "mine"


def test_an_inbox_with_more_in_it_is_not_used_again(trials: SafeFolder) -> None:
    folders = TrialFolders(trials, None, keeps=True)
    for number in range(3):
        run(folders, trials, f"1-{number}", lambda path: (path / "in/more").touch())
        assert trials.names() == []


def test_a_folder_of_the_same_name_that_was_left_is_emptied_first(trials: SafeFolder) -> None:
    folders = TrialFolders(trials, None, keeps=True)
    for number in range(3):
        left = trials.below(f"1-{number}", "out", "traces").make()
        left.file("task_1.json").write(b"{}")
        run(folders, trials, f"1-{number}")


def test_changes_that_may_get_the_last_date_are_not_missed(
    trials: SafeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = TrialFolders(trials, None, keeps=True)
    for number in range(2):
        run(folders, trials, f"1-{number}")
    (idle,) = folders._idle
    last = max(changed_at for _, changed_at in idle.inside.values())
    monkeypatch.setattr(time, "time_ns", lambda: last + 5_000_000)
    folders.make(trials.below("1-9"), b"{}")
    assert list(folders._idle) == [idle], "one that could be changed under the same date waits"
    assert sorted(trials.names()) == ["1-1", "1-9"]


def test_where_dates_are_whole_seconds_no_folder_inside_is_used_again(
    trials: SafeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity(name: str, folder: int) -> tuple[int, int]:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return status.st_ino, int(status.st_ctime) * 10**9

    monkeypatch.setattr(trial_folders, "_identity", identity)
    folders = TrialFolders(trials, None, keeps=True)
    for number in range(5):
        run(folders, trials, f"1-{number}", lambda path: (path / "out/artifacts/evil.py").touch())
