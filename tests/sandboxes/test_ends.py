"""How a trial ends: its code, its survivors, the sandbox's own failures."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import SandboxError
from loopty.sandboxes.bubblewrap import Bubblewrap

DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for descriptor in range(3):
            os.close(descriptor)
        time.sleep(1000)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 128 + signal.SIGTERM)]
)
async def test_the_code_of_the_command_is_told(place, script, code):
    ran = await place.shell(script)
    assert (ran.exit.code, ran.exit.stop) == (code, None)


async def test_a_command_that_is_not_found_is_a_failed_command(place):
    ran = await place.run(place.launch("no-such-command"))
    assert ran.exit.code == 127


async def test_a_sandbox_that_cannot_be_set_up_is_not_a_failed_command(place):
    with pytest.raises(SandboxError, match="chdir"):
        await place.run(place.launch("/bin/true", cwd="/absent"))


async def test_a_daemon_dies_with_its_trial(place, alive):
    ran = await place.python(f"'daemon-token-1'\n{DAEMON}")
    assert ran.exit.code == 0
    assert alive("daemon-token-1") == []


async def test_a_daemon_dies_when_its_trial_is_stopped(place, alive, bounded):
    script = f"'daemon-token-2'\n{DAEMON}\ntime.sleep(1000)"
    await place.python(script, bounds=bounded(seconds=0.5))
    assert alive("daemon-token-2") == []


async def test_a_cancelled_task_leaves_nothing(place, alive):
    launch = place.launch("/bin/sh", "-c", "sleep 1000; : task-token")
    task = asyncio.create_task(place.run(launch))
    await asyncio.to_thread(until, lambda: alive("task-token"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive("task-token") == []


@pytest.mark.parametrize("delay", [0, 0.001, 0.003, 0.006])
async def test_a_task_cancelled_while_its_sandbox_is_set_up_leaves_nothing(place, alive, delay):
    token = f"early-token-{os.getpid()}"
    task = asyncio.create_task(place.run(place.launch("/bin/sh", "-c", f"sleep 1000; : {token}")))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(token) == []


PARENT = """
import asyncio, os, sys
from pathlib import Path
from loopty.domain.launch import Bounds, Launch
from loopty.sandboxes.bubblewrap import Bubblewrap

root = Path(sys.argv[1])
bounds = Bounds(seconds=1000, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
script = "setsid sleep 1000 & echo; sleep 1000; : " + sys.argv[2]
launch = Launch(("/bin/sh", "-c", script), "/", bounds, root / "out", root / "err", {"PATH": "/usr/bin:/bin"})

async def main():
    sandbox = Bubblewrap()
    if len(sys.argv) > 3:
        asyncio.get_running_loop().call_later(float(sys.argv[3]), os.kill, os.getpid(), 9)
    await sandbox.run(launch, asyncio.Event())

asyncio.run(main())
"""


ENVIRONMENT = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}


def test_a_trial_dies_when_loopty_is_killed(tmp_path, alive):
    token = "orphan-token"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), token], env=ENVIRONMENT)
    out = tmp_path / "out"
    until(lambda: out.exists() and out.read_text())
    assert len(alive(token)) > 1
    parent.kill()
    parent.wait()
    until(lambda: not alive(token))


@pytest.mark.parametrize("delay", [0, 0.004, 0.006, 0.008, 0.010])
def test_nothing_is_left_when_loopty_is_killed_while_it_sets_up_a_trial(tmp_path, alive, delay):
    token = f"half-made-token-{os.getpid()}"
    command = [sys.executable, "-c", PARENT, str(tmp_path), token, str(delay)]
    assert subprocess.run(command, env=ENVIRONMENT, check=False).returncode == -signal.SIGKILL
    until(lambda: not alive(token))


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_two_hundred_runs_leave_nothing_behind(place):
    launch = place.launch("/bin/true")
    await place.run(launch)
    gc.collect()  # sandboxes of earlier tests take their mounts with them
    before, mounted = leftovers(), staged()
    for _ in range(200):
        assert (await place.run(launch)).exit.code == 0
    assert leftovers() == before
    assert staged() - mounted == set()


def leftovers() -> tuple[list[str], list[str]]:
    descriptors = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    children = [
        pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()
    ]
    return descriptors, children


def staged() -> set[str]:
    """The mounts of this process; those of others are in namespaces of their own."""
    mounts = Path("/proc/thread-self/mounts").read_text().splitlines()
    return {line.split()[1] for line in mounts if "/loopty-" in line}


async def test_a_missing_bubblewrap_is_told_with_its_remedy(place, monkeypatch):
    monkeypatch.setenv("PATH", "")
    missing = dataclasses.replace(place, sandbox=Bubblewrap())
    with pytest.raises(SandboxError, match="apt install bubblewrap"):
        await missing.run(place.launch("/bin/true"))
