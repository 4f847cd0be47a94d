"""Root shows an unprivileged user sources in a folder that only root may enter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Mount
from loopty.kit.process import trial_owner
from loopty.kit.temporary_folder import fresh_name
from loopty.sandboxes.root_bind import BindAliases

pytestmark = pytest.mark.skipif(trial_owner() is None, reason="only root has folders that its trials cannot enter")


@pytest.fixture
def closed_folder(tmp_path):
    folder = tmp_path.resolve() / "closed"
    folder.mkdir(mode=0o700)
    (folder / "inside" / "deep").mkdir(parents=True)
    (folder / "inside" / "deep" / "file").write_text("shown")
    return folder


async def test_a_source_in_a_closed_folder_is_visible(harness, closed_folder):
    launch = harness.launch(
        "/bin/cat", "/shown/file", mounts=(Mount(closed_folder / "inside" / "deep", "/shown"),), cwd="/"
    )
    assert (await harness.run(launch)).out == "shown"


async def test_a_replaced_source_is_visible_in_its_new_state(harness, closed_folder):
    launch = harness.launch(
        "/bin/cat", "/shown/file", mounts=(Mount(closed_folder / "inside" / "deep", "/shown"),), cwd="/"
    )
    await harness.run(launch)
    (closed_folder / "inside").rename(closed_folder / "old")
    (closed_folder / "inside" / "deep").mkdir(parents=True)
    (closed_folder / "inside" / "deep" / "file").write_text("new")
    assert (await harness.run(launch)).out == "new"


async def test_a_trial_can_write_to_a_source_in_a_closed_folder(harness, closed_folder):
    os.chown(closed_folder / "inside" / "deep", *trial_owner())
    mounts = (Mount(closed_folder / "inside" / "deep", "/shown", writable=True),)
    await harness.run(harness.launch("/bin/sh", "-c", "echo written > /shown/new", mounts=mounts, cwd="/"))
    assert (closed_folder / "inside" / "deep" / "new").read_text() == "written\n"


PRINT_ALIAS = """
import asyncio, os, sys
from pathlib import Path
from loopty.sandboxes.root_bind import BindAliases

aliases = BindAliases(61000, 61000)
print(aliases.reachable_path(Path(sys.argv[1])), flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["normal", "killed"])
def test_the_host_never_sees_the_aliases(closed_folder, end):
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    command = [sys.executable, "-c", PRINT_ALIAS, str(closed_folder / "inside"), end]
    alias = Path(
        subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    )
    assert not alias.exists()
    if end == "killed":
        assert alias.parent.exists(), "nobody was left to remove it"
        BindAliases(61000, 61000)
    assert not alias.parent.exists()


def test_the_folders_of_living_processes_and_of_others_stay():
    mine, foreign = Path("/run", fresh_name()), Path("/run/loopty-somebody-else")
    for folder in (mine, foreign):
        folder.mkdir()
    BindAliases(61000, 61000)
    for folder in (mine, foreign):
        folder.rmdir()


HOLD_ALIAS = """
import sys
from pathlib import Path
from loopty.sandboxes.root_bind import BindAliases
aliases = BindAliases(61000, 61000)
alias = aliases.reachable_path(Path(sys.argv[1]))
print(alias, flush=True)
sys.stdin.readline()
print(alias.exists(), flush=True)
"""


def test_eight_at_once_sweep_what_killed_ones_leave_and_nothing_of_the_living(closed_folder):
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    command = [sys.executable, "-c", HOLD_ALIAS, str(closed_folder / "inside")]
    processes = [
        subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
        )
        for _ in range(8)
    ]
    folders = [Path(process.stdout.readline().strip()).parent for process in processes]
    assert len(set(folders)) == 8
    killed, living = processes[:4], processes[4:]
    for process in killed:
        process.kill()
        process.communicate()
    BindAliases(61000, 61000)
    assert [folder.exists() for folder in folders] == [False] * 4 + [True] * 4
    for process in living:
        assert process.communicate("\n")[0] == "True\n"
    assert not any(folder.exists() for folder in folders)
