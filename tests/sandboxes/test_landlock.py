"""The Landlock back end: the conformance suite, how trials end, what is not enforced."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Mount, Protection, SandboxError, Stop
from loopty.sandboxes.cgroup import can_make_cgroups
from loopty.sandboxes.landlock import Landlock
from loopty.sandboxes.landlock_supervisor import landlock_domain
from loopty.testing.sandbox_suite import SandboxConformance


def has_landlock() -> bool:
    try:
        return landlock_domain.version() >= landlock_domain.SCOPES_VERSION
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock, or an old one")

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


class TestConformance(SandboxConformance):
    @pytest.fixture
    def sandbox(self):
        return Landlock()


@pytest.fixture
def place(place_of):
    return place_of(Landlock())


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 128 + signal.SIGTERM)]
)
async def test_the_code_of_the_command_is_told(place, script, code):
    ran = await place.shell(script)
    assert (ran.exit.code, ran.exit.stop) == (code, None)


async def test_a_command_that_is_not_found_is_a_failed_command(place):
    assert (await place.run(place.launch("no-such-command"))).exit.code == 127


async def test_a_file_that_is_no_program_is_a_failed_command(place):
    (place.tree / "text").write_text("no program")
    assert (await place.run(place.launch("/tree/text"))).exit.code == 126


async def test_a_place_that_is_not_there_is_the_sandbox_failing(place):
    with pytest.raises(SandboxError, match="/absent"):
        await place.run(place.launch("/bin/true", cwd="/absent"))


async def test_a_link_as_source_is_refused(place):
    (place.root / "link").symlink_to(place.tree)
    with pytest.raises(SandboxError, match="symbolic link"):
        await place.run(place.launch("/bin/true", mounts=(Mount(place.root / "link", "/tree"),)))


async def test_a_kernel_without_landlock_is_told_with_its_remedy(place):
    with pytest.raises(SandboxError, match=r"lsm=landlock"):
        await Landlock(abi=0).run(place.launch("/bin/true"), asyncio.Event())


@pytest.mark.parametrize("abi", range(1, landlock_domain.version() + 1) if has_landlock() else [])
async def test_a_trial_runs_under_every_older_version_of_landlock(place_of, abi):
    place = place_of(Landlock(abi))
    script = "echo no > $EDIT/../loopty || echo yes > $EDIT/file; cat $EDIT/file"
    ran = await place.shell(script, env={"EDIT": "/edit", "PATH": "/usr/bin:/bin"})
    assert (ran.out, (place.edit / "file").read_text()) == ("yes\n", "yes\n")


async def test_older_versions_name_what_they_do_not_enforce():
    given = {gap.protection for gap in Landlock(abi=5).gaps}
    assert {Protection.OTHERS, Protection.SURVIVORS} <= given
    always = {Protection.CALLS} if can_make_cgroups() else {Protection.CALLS, Protection.MEMORY}
    assert {gap.protection for gap in Landlock().gaps} == always


async def test_a_daemon_dies_with_its_trial(place, alive):
    ran = await place.python(f"'landlock-daemon-1'\n{DAEMON}")
    assert ran.exit.code == 0
    assert alive("landlock-daemon-1") == []


async def test_a_daemon_dies_when_its_trial_is_stopped(place, alive, bounded):
    script = f"'landlock-daemon-2'\n{DAEMON}\ntime.sleep(1000)"
    ran = await place.python(script, bounds=bounded(seconds=0.7))
    assert ran.exit.stop is Stop.TIME
    assert alive("landlock-daemon-2") == []


async def test_a_trial_cannot_kill_its_warden(place, alive):
    script = f"'landlock-daemon-3'\n{DAEMON}\nimport errno\n"
    script += "try:\n    os.kill(os.getppid(), 9)\nexcept PermissionError:\n    print('refused')"
    ran = await place.python(script)
    assert ran.out == "refused\n"
    assert alive("landlock-daemon-3") == []


async def test_a_cancelled_task_leaves_nothing(place, alive):
    task = asyncio.create_task(place.run(place.launch("/bin/sh", "-c", "sleep 1000; : landlock-task")))
    await asyncio.to_thread(until, lambda: alive("landlock-task"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive("landlock-task") == []


@pytest.mark.parametrize("delay", [0, 0.003, 0.01, 0.02, 0.04])
async def test_a_task_cancelled_while_its_sandbox_is_set_up_leaves_nothing(place, alive, delay, monkeypatch):
    # Of its own, because other tests run at the same time.
    temporary, token = place.root / "temporary", f"landlock-early-{os.getpid()}"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    task = asyncio.create_task(place.run(place.launch("/bin/sh", "-c", f"sleep 1000; : {token}")))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(token) == []
    assert list(temporary.iterdir()) == []


PARENT = """
import asyncio, os, sys
from pathlib import Path
from loopty.domain.launch import Bounds, Launch
from loopty.sandboxes.landlock import Landlock

root = Path(sys.argv[1])
bounds = Bounds(seconds=1000, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
script = "setsid sleep 1000 & echo; sleep 1000; : " + sys.argv[2]
launch = Launch(("/bin/sh", "-c", script), "/", bounds, root / "out", root / "err", {"PATH": "/usr/bin:/bin"})

async def main():
    sandbox = Landlock()
    if len(sys.argv) > 3:
        asyncio.get_running_loop().call_later(float(sys.argv[3]), os.kill, os.getpid(), 9)
    await sandbox.run(launch, asyncio.Event())

asyncio.run(main())
"""


def parent(tmp_path: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent), "TMPDIR": str(tmp_path)}
    return subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), *words], env=environment)


def test_a_trial_dies_when_loopty_is_killed(tmp_path, alive):
    with parent(tmp_path, "landlock-orphan") as loop:
        until(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text())
        assert len(alive("landlock-orphan")) > 1
        loop.kill()
    until(lambda: not alive("landlock-orphan"))


@pytest.mark.parametrize("delay", [0, 0.005, 0.015, 0.025, 0.04])
def test_nothing_is_left_when_loopty_is_killed_while_it_sets_up_a_trial(tmp_path, alive, delay):
    token = f"landlock-half-made-{os.getpid()}"
    with parent(tmp_path, token, str(delay)) as loop:
        assert loop.wait() == -signal.SIGKILL
    until(lambda: not alive(token))


async def test_fifty_runs_leave_nothing_behind(place):
    launch = place.launch("/bin/true")
    await place.run(launch)
    before = leftovers()
    for _ in range(50):
        assert (await place.run(launch)).exit.code == 0
    assert leftovers() == before


def leftovers() -> tuple[list[str], list[str]]:
    descriptors = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    children = [
        pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()
    ]
    return descriptors, children


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


PROBE = """
import asyncio
from loopty.sandboxes.landlock import Landlock
from loopty.sandboxes.probe import probe

found = asyncio.run(probe(Landlock()))
print(found.problem, *(gap.protection for gap in found.gaps if gap.protection != "memory"), len(found.tried))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_an_ordinary_user_is_kept_from_as_much():
    source = Path(loopty.__file__).parent.parent
    identity = ["setpriv", "--reuid=61001", "--regid=61001", "--clear-groups", "--"]
    command = [
        *identity,
        "env",
        "-i",
        f"PYTHONPATH={source}",
        "PYTHONDONTWRITEBYTECODE=1",
        "/usr/bin/python3",
        "-c",
    ]
    if subprocess.run([*command, "import loopty.domain.launch"], capture_output=True, check=False).returncode:
        pytest.skip("an ordinary user has no interpreter here that can import loopty")
    done = subprocess.run([*command, PROBE], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == ["calls", "8"]
