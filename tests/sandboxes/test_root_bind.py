"""Sources behind a closed door, shown to an unprivileged user by root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Mount
from loopty.sandboxes.trial_user import trial_owner

pytestmark = pytest.mark.skipif(trial_owner() is None, reason="only root has doors that its trials cannot pass")


@pytest.fixture
def closed(tmp_path):
    door = tmp_path.resolve() / "closed"
    door.mkdir(mode=0o700)
    (door / "inside" / "deep").mkdir(parents=True)
    (door / "inside" / "deep" / "file").write_text("shown")
    return door


async def test_a_source_behind_a_closed_door_is_shown(place, closed):
    launch = place.launch(
        "/bin/cat", "/shown/file", mounts=(Mount(closed / "inside" / "deep", "/shown"),), cwd="/"
    )
    assert (await place.run(launch)).out == "shown"


async def test_a_source_that_was_replaced_is_shown_as_it_is_now(place, closed):
    launch = place.launch(
        "/bin/cat", "/shown/file", mounts=(Mount(closed / "inside" / "deep", "/shown"),), cwd="/"
    )
    await place.run(launch)
    (closed / "inside").rename(closed / "old")
    (closed / "inside" / "deep").mkdir(parents=True)
    (closed / "inside" / "deep" / "file").write_text("new")
    assert (await place.run(launch)).out == "new"


async def test_what_a_trial_writes_behind_a_closed_door_arrives(place, closed):
    os.chown(closed / "inside" / "deep", *trial_owner())
    mounts = (Mount(closed / "inside" / "deep", "/shown", writable=True),)
    await place.run(place.launch("/bin/sh", "-c", "echo written > /shown/new", mounts=mounts, cwd="/"))
    assert (closed / "inside" / "deep" / "new").read_text() == "written\n"


STAGED = """
import asyncio, os, sys
from pathlib import Path
from loopty.sandboxes.root_bind import Staging

staging = Staging(61000, 61000)
print(staging.reachable(Path(sys.argv[1])), flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["normal", "killed"])
def test_the_host_never_sees_what_was_staged(closed, end):
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    command = [sys.executable, "-c", STAGED, str(closed / "inside"), end]
    alias = Path(
        subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    )
    assert not alias.exists()
    if end == "killed":
        alias.parent.rmdir()
    assert not alias.parent.exists()
