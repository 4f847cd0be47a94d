"""Namespaces pass every conformance suite, give what bubblewrap gives, and leave nothing when killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import SandboxError
from loopty.kit.records import replace
from loopty.sandboxes import cgroup
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.namespaces.launcher import Launcher
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.testing.sandbox_harness import SandboxHarness, pids_with, wait_until
from loopty.testing.sandbox_suite import BoundConformance, IsolationConformance, SandboxConformance

KILLS = int(os.environ.get("LOOPTY_TEST_KILLS", "6"))
"""How often each kind of process is killed."""


class TestNamespaces(SandboxConformance, IsolationConformance, BoundConformance):
    runs = 200

    @pytest.fixture
    def sandbox(self):
        return Namespaces()


async def test_a_trial_cannot_use_the_calls_of_the_launcher(harness_of):
    attempt = "import ctypes; print(ctypes.CDLL(None).syscall(272, 0x02000000, 0, 0, 0, 0, 0))"
    assert (await harness_of(Namespaces()).python(attempt)).out == "-1\n"


SHOW = r"""
env | sort
cat /proc/self/status | grep -E '^(Uid|Gid|Groups|Cap|NoNew|Seccomp|SigBlk|Umask)'
cat /proc/self/limits /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups
while read -r _ _ _ _ at flags _; do echo "$at $flags"; done < /proc/self/mountinfo | sort | grep -v '^/etc '
find / /dev -maxdepth 1 -printf '%p %l\n' | sort
find /etc -maxdepth 1 -mindepth 1 | sort
ls /proc/self/fd /sys 2>&1
cat /proc/sys/kernel/hostname /proc/self/oom_score_adj
grep -c . /proc/net/dev /proc/net/if_inet6
pwd; id -u
"""


async def test_a_trial_sees_the_same_as_under_bubblewrap(tmp_path):
    seen = []
    for kind in (Namespaces, Bubblewrap):
        (tmp_path / kind.name).mkdir()
        harness = SandboxHarness.create(tmp_path / kind.name, kind())
        changes = {"scratch": ("/build", "/tree/part"), "links": {"/home/someone/repository": "/tree"}}
        (harness.tree / "part").mkdir()
        seen.append((await harness.shell(SHOW, **changes)).out.splitlines())
    ours, bubblewraps = seen
    assert len(ours) > 60
    assert ours == bubblewraps


async def test_a_trial_cannot_look_into_its_first_process(harness_of):
    script = "cat /proc/1/environ /proc/1/maps; ls /proc/1/fd /proc/1/root/; : < /proc/1/mem && echo open"
    result = await harness_of(Namespaces()).shell(script)
    assert result.out.strip() == "/proc/1/fd:" or result.out == ""
    assert result.err.count("ermission denied") >= 4


async def test_a_trial_can_make_no_user_namespace_even_without_the_filter(harness_of):
    launcher = Launcher()
    harness = harness_of(Namespaces(launcher))
    launcher._call_filter = None
    result = await harness.shell("cat /proc/sys/user/max_user_namespaces; unshare --user true; echo $?")
    assert result.out.split() == ["0", "1"]


async def test_a_script_without_an_interpreter_line_is_the_shell_s(harness_of):
    harness = harness_of(Namespaces())
    (harness.tree / "plain-script").write_text('echo "$0 $1"; exit 4\n')
    (harness.tree / "plain-script").chmod(0o755)
    result = await harness.run(harness.launch("plain-script", "word", env={"PATH": "/usr/bin:/tree"}))
    assert (result.exit.code, result.out) == (4, "/tree/plain-script word\n")


async def test_a_file_that_cannot_be_executed_gives_126(harness_of):
    harness = harness_of(Namespaces())
    (harness.tree / "data").write_text("x")
    result = await harness.run(harness.launch("/tree/data"))
    assert result.exit.code == 126
    assert "cannot start /tree/data" in result.err


async def test_a_launch_may_have_more_mounts_than_one_message_carries(harness_of):
    harness = harness_of(Namespaces())
    launch = harness.launch("/bin/sh", "-c", "ls -d /many/* | wc -l")
    many = tuple(replace(launch.mounts[0], target=f"/many/{number}") for number in range(500))
    assert (await harness.run(replace(launch, mounts=(*launch.mounts, *many)))).out == "500\n"


async def test_a_mount_point_behind_a_link_is_refused(harness_of):
    harness = harness_of(Namespaces())
    (harness.tree / "link").symlink_to("/edit")
    launch = harness.launch("/bin/true")
    behind = replace(launch.mounts[0], target="/tree/link/inside")
    with pytest.raises(SandboxError, match="/tree/link/inside"):
        await harness.run(replace(launch, mounts=(*launch.mounts, behind)))
    assert list(harness.edit.iterdir()) == []


async def test_a_launcher_that_cannot_begin_says_why(harness_of, monkeypatch):
    monkeypatch.setattr("loopty.sandboxes.trial_view.system_entries", lambda: [Absent()])
    with pytest.raises(SandboxError, match="/absent: No such file"):
        await harness_of(Namespaces(Launcher())).shell("true")


class Absent:
    path, source, is_link = "/absent", "/absent", False


def launcher_pid(launcher: Launcher) -> int:
    return launcher._resident.pid


async def test_the_launcher_stays_and_its_memory_too(harness_of):
    launcher = Launcher()
    harness = harness_of(Namespaces(launcher))
    sizes, pids = [], set()
    for runs in (50, 150):
        for _ in range(runs):
            assert (await harness.run(harness.launch("/bin/true"))).exit.code == 0
        pids.add(launcher_pid(launcher))
        lines = Path(f"/proc/{launcher_pid(launcher)}/status").read_text().splitlines()
        sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))
    assert len(pids) == 1
    assert sizes[1] <= sizes[0] + 64


async def test_a_launcher_that_was_killed_is_started_again(harness_of):
    launcher = Launcher()
    harness = harness_of(Namespaces(launcher))
    for _ in range(3):
        assert (await harness.shell("exit 3")).exit.code == 3
        os.kill(launcher_pid(launcher), signal.SIGKILL)


async def test_a_process_that_lost_the_connection_starts_a_launcher_and_leaves_the_number_to_its_file(harness_of):
    launcher = Launcher()
    harness = harness_of(Namespaces(launcher))
    assert (await harness.shell("exit 3")).exit.code == 3
    number, before = launcher._resident._connection.fileno(), launcher_pid(launcher)
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, number)  # as in a forked process that has closed all it does not know
    os.close(other)
    try:
        assert (await harness.shell("exit 3")).exit.code == 3
        assert launcher_pid(launcher) != before
        assert os.path.samestat(os.fstat(number), Path(os.devnull).stat())
    finally:
        os.close(number)


def victims_of(launcher: Launcher, victim: str) -> list[int]:
    resident = launcher_pid(launcher)
    if victim == "launcher":
        return [resident]
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/{resident}/task/{resident}/children").read_text().split()]
    return []


@pytest.mark.parametrize("victim", ["launcher", "first process"])
async def test_a_trial_whose_processes_are_killed_at_any_instant_is_no_failure_of_the_candidate(
    victim, harness_of, monkeypatch
):
    launcher = Launcher()
    harness = harness_of(Namespaces(launcher))
    groups, make = [], cgroup._make_group
    monkeypatch.setattr(cgroup, "_make_group", lambda parent: groups.append(make(parent)) or groups[-1])
    await harness.shell("true")
    for _ in range(KILLS):
        token = f"trial-{secrets.token_hex(8)}"
        trial = asyncio.create_task(harness.shell(f"setsid sleep 1000 & sleep 1000; : {token}"))
        await asyncio.sleep(random.choice((0, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05)))
        # More than once: a trial that has not begun is started again.
        while not trial.done():
            for pid in victims_of(launcher, victim):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.wait([trial], timeout=0.02)
        with pytest.raises(SandboxError):
            await trial
        assert pids_with(token) == []
        assert (await harness.shell("exit 5")).exit.code == 5
    assert [group._folder for group in groups if group._folder.exists()] == []


FORK = """
import asyncio, os, sys
from pathlib import Path
from loopty.domain.launch import Bounds, Launch
from loopty.sandboxes.namespaces.sandbox import Namespaces

root = Path(sys.argv[1])
bounds = Bounds(seconds=60, memory_mb=256, processes=32, output_mb=4, disk_mb=32)

def run(code):
    launch = Launch(("/bin/sh", "-c", f"exit {code}"), "/", bounds, root / f"{code}.out", root / f"{code}.err")
    assert asyncio.run(Namespaces().run(launch, asyncio.Event())).code == code

run(3)
if (child := os.fork()) == 0:
    run(4)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
run(5)
"""


def test_a_forked_process_starts_trials_too(tmp_path):
    env = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    subprocess.run([sys.executable, "-c", FORK, str(tmp_path)], env=env, check=True, timeout=60)


KEEP_STARTING = """
import asyncio, sys
from pathlib import Path
from loopty.domain.launch import Bounds, Launch
from loopty.sandboxes.namespaces.sandbox import Namespaces

root, token = Path(sys.argv[1]), sys.argv[2]
bounds = Bounds(seconds=1000, memory_mb=256, processes=32, output_mb=4, disk_mb=32)
script = "setsid sleep 1000 & sleep 0.00$1; : " + token

async def main():
    sandbox = Namespaces()
    async def keep_starting(slot):
        for number in range(1000000):
            argv = ("/bin/sh", "-c", script, "sh", str(number % 10))
            out, err = root / f"{slot}.out", root / f"{slot}.err"
            launch = Launch(argv, "/", bounds, out, err, {"PATH": "/usr/bin:/bin"})
            await sandbox.run(launch, asyncio.Event())
            print(number, flush=True)
    await asyncio.gather(*map(keep_starting, range(2)))

asyncio.run(main())
"""


def test_loopty_can_be_killed_at_any_instant_eight_at_once(tmp_path):
    token = f"trial-{secrets.token_hex(8)}"
    env = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    launchers = []
    for _ in range(max(1, KILLS // 8)):
        processes = []
        for number in range(8):
            folder = tmp_path / str(number)
            folder.mkdir(exist_ok=True)
            command = [sys.executable, "-c", KEEP_STARTING, str(folder), token]
            processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE))
        for process in processes:
            process.stdout.readline()
            launchers += Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for process in processes:
            time.sleep(random.random() / 50)
            process.kill()
            process.wait()
            process.stdout.close()
    wait_until(lambda: not pids_with(token))
    assert len(launchers) >= 8
    wait_until(lambda: not [pid for pid in launchers if is_alive(pid)])


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
