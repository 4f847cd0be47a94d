"""Loopty's folders are closed to the other users of the machine, who could start a program that a trial left."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from loopty.kit.process import trial_owner
from loopty.workspaces.state_folder import StateFolder

FOLDERS = (".loopty", ".git/loopty")


@pytest.fixture
def top(user: Any) -> Path:
    """A repository whose state was made open to all, with a program in it that makes others its owner."""
    user.commits({"a": "a"})
    (user.top / ".git/loopty/trials").mkdir(parents=True)
    (user.top / ".git/loopty").chmod(0o2777)
    (user.top / ".loopty").mkdir()
    StateFolder.of(user.repository.folders).prepare()
    for folder in FOLDERS:
        (user.top / folder / "program").write_text("#!/bin/sh\nid -u\n")
        (user.top / folder / "program").chmod(0o4755)
    return Path(user.top)


def run_as(uid: int, *command: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    if os.geteuid():
        pytest.skip("only root can be another user")
    return subprocess.run(command, cwd=cwd, user=uid, group=uid, extra_groups=[], capture_output=True)


def test_state_belongs_to_its_user_alone(top: Path) -> None:
    for folder in FOLDERS:
        status = (top / folder).stat()
        if (owner := trial_owner()) is None:
            assert stat.S_IMODE(status.st_mode) == 0o700
        else:
            assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o710, owner[1])


@pytest.mark.parametrize("folder", FOLDERS)
def test_another_user_reaches_nothing_of_it(top: Path, folder: str) -> None:
    for command in (("ls", folder), ("cat", f"{folder}/program"), ("sh", "-c", f"./{folder}/program")):
        done = run_as(12_345, *command, cwd=top)
        assert done.returncode
        assert b"denied" in done.stderr


def test_the_user_of_trials_may_pass_but_lists_nothing(top: Path) -> None:
    uid = (trial_owner() or (0, 0))[0]
    assert run_as(uid, "ls", ".git/loopty", cwd=top).returncode
    assert not run_as(uid, "ls", ".git/loopty/trials", cwd=top).returncode
