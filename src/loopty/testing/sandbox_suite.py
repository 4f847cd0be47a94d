"""Conformance suites for sandboxes: subclass one and give it a `sandbox` fixture.

Every sandbox passes SandboxConformance; one that isolates trials also passes IsolationConformance and
BoundConformance. The tests are for pytest with asyncio in automatic mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loopty.domain.launch import Bounds, Exit, Freezer, Launch, Mount, Sandbox, SandboxError, Stop
from loopty.kit.records import replace
from loopty.testing.sandbox_harness import SandboxHarness, bounds_with, pids_with, wait_until

_BOUNDS = Bounds(seconds=30.0, memory_mb=512, processes=64, output_mb=2, disk_mb=64)
_KILLED = 128 + signal.SIGKILL
# From the first step of a back end's set-up to the start of the command.
_SET_UP_DELAYS = (0, 0.001, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.04)

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
"""A Python script that leaves a process: forked twice, in its own session, deaf to signals, no descriptors."""

START_SPINNERS = """
import os
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                pass
        os._exit(0)
    os.wait()
"""
"""A Python script that starts processes in their own session, which use all CPU they can get and outlive it."""
SPINNERS = f"{START_SPINNERS}while True:\n    pass\n"

# Runs a trial that does not end, and kills itself after some seconds when the arguments name them; with "frozen",
# when the trial has begun and is stopped.
_LOOPTY = """
import asyncio, importlib, os, sys
from loopty.kit.records import replace
from pathlib import Path
from loopty.domain.launch import Bounds, Launch

module, name, folder, token, *seconds = sys.argv[1:]
root = Path(folder)
bounds = Bounds(seconds=1000, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
script = "setsid sleep 1000 & echo; sleep 1000; : " + token
launch = Launch(("/bin/sh", "-c", script), "/", bounds, root / "out", root / "err", {"PATH": "/usr/bin:/bin"})

def freeze_and_die(freezer):
    if not (root / "out").exists() or not (root / "out").read_text():
        asyncio.get_running_loop().call_later(0.05, freeze_and_die, freezer)
        return
    freezer.freeze()
    os.kill(os.getpid(), 9)

async def main():
    global launch
    sandbox = getattr(importlib.import_module(module), name)()
    if seconds == ["frozen"]:
        launch = replace(launch, on_start=freeze_and_die)
    elif seconds:
        asyncio.get_running_loop().call_later(float(seconds[0]), os.kill, os.getpid(), 9)
    await sandbox.run(launch, asyncio.Event())

asyncio.run(main())
"""


class SandboxConformance:
    """The contract of the Sandbox protocol."""

    async def test_the_exit_code_and_both_streams_come_back(self, sandbox: Sandbox, tmp_path: Path) -> None:
        result = await self._run_shell(sandbox, tmp_path, "echo out; echo err >&2; exit 7")
        assert (result.code, result.stop) == (7, None)
        assert (tmp_path / "stdout").read_text() == "out\n"
        assert (tmp_path / "stderr").read_text() == "err\n"

    async def test_every_exit_code_is_the_commands_own(self, sandbox: Sandbox, tmp_path: Path) -> None:
        for script, code in (("exit 0", 0), ("exit 3", 3), ("exit 125", 125)):
            result = await self._run_shell(sandbox, tmp_path, script)
            assert (result.code, result.stop) == (code, None)

    async def test_a_signal_gives_128_plus_its_number(self, sandbox: Sandbox, tmp_path: Path) -> None:
        result = await self._run_shell(sandbox, tmp_path, "kill -TERM $$")
        assert (result.code, result.stop) == (128 + signal.SIGTERM, None)

    async def test_a_command_is_found_by_its_name_without_loopty_s_interpreter(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        launch = harness.launch("true", env={"PATH": "/usr/bin:/bin"})
        mounts = tuple(mount for mount in launch.mounts if mount.target in ("/tree", "/edit"))
        assert (await harness.run(replace(launch, mounts=mounts))).exit.code == 0

    async def test_a_command_that_is_not_found_gives_127(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        assert (await harness.run(harness.launch("no-such-command"))).exit.code == 127

    async def test_it_sees_its_mounts_and_its_environment(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "seen").mkdir()
        (tmp_path / "seen" / "note").write_text("hello")
        result = await self._run_shell(sandbox, tmp_path, 'cat note; echo "$WORD"', env={"WORD": "there"})
        assert result.code == 0
        assert (tmp_path / "stdout").read_text() == "hellothere\n"

    async def test_home_and_the_temporary_directory_can_be_written(self, sandbox: Sandbox, tmp_path: Path) -> None:
        # Shell alone: an image may have little else.
        script = (
            'for at in "$HOME" "$TMPDIR"; do echo x > "${at:?}/f" && read -r line < "$at/f" && echo "$line"; done'
        )
        result = await self._run_shell(sandbox, tmp_path, script)
        assert result.code == 0
        assert (tmp_path / "stdout").read_text() == "x\nx\n"

    async def test_time_ends_it(self, sandbox: Sandbox, tmp_path: Path) -> None:
        bounds = Bounds(0.3, 512, 64, 2, 64)
        assert (await self._run_shell(sandbox, tmp_path, "sleep 60", bounds=bounds)).stop is Stop.TIME

    async def test_output_ends_it(self, sandbox: Sandbox, tmp_path: Path) -> None:
        script = "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"
        assert (await self._run_shell(sandbox, tmp_path, script)).stop is Stop.OUTPUT
        assert (tmp_path / "stdout").stat().st_size <= 2 << 20

    async def test_cancelling_ends_it(self, sandbox: Sandbox, tmp_path: Path) -> None:
        cancel = asyncio.Event()
        asyncio.get_running_loop().call_later(0.2, cancel.set)
        assert (await self._run_shell(sandbox, tmp_path, "sleep 60", cancel=cancel)).stop is Stop.CANCELLED

    async def test_a_process_that_it_leaves_is_dead_on_return(self, sandbox: Sandbox, tmp_path: Path) -> None:
        token = _fresh_token()
        await self._run_shell(sandbox, tmp_path, f"(exec sleep 61 {token} >/dev/null 2>&1) & sleep 0.1")
        assert pids_with(token) == []

    async def test_its_processes_can_be_stopped_and_go_on(self, sandbox: Sandbox, tmp_path: Path) -> None:
        """Include one that was forked twice and has left its session; CPU time says whether it runs."""
        offer: asyncio.Future[Freezer] = asyncio.get_running_loop().create_future()
        cancel = asyncio.Event()
        harness = SandboxHarness.create(tmp_path, sandbox)
        launch = harness.launch(*harness.interpreter, SPINNERS, on_start=offer.set_result)
        running = asyncio.create_task(harness.run(launch, cancel))
        try:
            freezer = await offer
            await _wait_for_cpu(freezer, 0.2)
            await asyncio.to_thread(freezer.freeze)
            before = freezer.cpu_seconds()
            await asyncio.sleep(0.5)
            assert freezer.cpu_seconds() - before < 0.03  # two ticks of the clock by which some are counted
            await asyncio.to_thread(freezer.thaw)
            await _wait_for_cpu(freezer, before + 0.2)
            await asyncio.to_thread(freezer.freeze)
        finally:
            cancel.set()
            result = await running
        assert result.exit.stop is Stop.CANCELLED

    async def test_a_channel_is_its_standard_input_and_output(self, sandbox: Sandbox, tmp_path: Path) -> None:
        ours, theirs = socket.socketpair()
        ours.sendall(b"question\n")
        with ours:
            script = "read -r line; echo answer to $line; echo err >&2"
            result = await self._run_shell(sandbox, tmp_path, script, channel=theirs.detach())
            assert result.code == 0
            # Read to the end: no process holds the other side any more, not even this one.
            assert ours.makefile("rb").read() == b"answer to question\n"
        assert (tmp_path / "stderr").read_text() == "err\n"
        assert not (tmp_path / "stdout").exists()

    async def test_the_end_of_a_channel_reaches_the_command(self, sandbox: Sandbox, tmp_path: Path) -> None:
        ours, theirs = socket.socketpair()
        asyncio.get_running_loop().call_later(0.2, ours.close)
        result = await self._run_shell(sandbox, tmp_path, "cat >/dev/null; exit 5", channel=theirs.detach())
        assert (result.code, result.stop) == (5, None)

    async def test_a_channel_is_closed_when_the_command_cannot_start(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        ours, theirs = socket.socketpair()
        with ours:
            missing = (Mount(tmp_path / "missing", "/seen"),)
            failure = None
            try:
                await self._run_shell(sandbox, tmp_path, "true", mounts=missing, channel=theirs.detach())
            except SandboxError as error:
                failure = error
            assert failure is not None
            assert ours.recv(1) == b""

    async def _run_shell(
        self,
        sandbox: Sandbox,
        tmp_path: Path,
        line: str,
        bounds: Bounds = _BOUNDS,
        env: dict[str, str] | None = None,
        cancel: asyncio.Event | None = None,
        mounts: tuple[Mount, ...] = (),
        channel: int | None = None,
    ) -> Exit:
        (tmp_path / "seen").mkdir(exist_ok=True)
        launch = Launch(
            argv=("/bin/sh", "-c", line),
            cwd="/seen",
            bounds=bounds,
            stdout=tmp_path / "stdout",
            stderr=tmp_path / "stderr",
            env={"PATH": "/usr/bin:/bin", **(env or {})},
            mounts=mounts or (Mount(tmp_path / "seen", "/seen"),),
            channel=channel,
        )
        return await sandbox.run(launch, cancel or asyncio.Event())


class IsolationConformance:
    """Nothing outlives a trial, however it or loopty ends, and no link leads out of it.

    The class of the sandbox must take no arguments, because some tests start it in another process.
    """

    runs = 50
    """How often one test repeats a launch to find what a single launch leaves."""

    async def test_an_absent_working_directory_is_a_failure_of_the_sandbox(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        assert "/absent" in await _failure(harness, harness.launch("/bin/true", cwd="/absent"))

    async def test_a_link_as_the_source_of_a_mount_is_refused(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        (harness.root / "link").symlink_to(harness.tree)
        launch = harness.launch("/bin/true", mounts=(Mount(harness.root / "link", "/tree"),))
        assert "symbolic link" in await _failure(harness, launch)

    async def test_only_the_standard_descriptors_are_inherited(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        result = await harness.python("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
        assert json.loads(result.out) == [0, 1, 2, 3]

    async def test_a_daemon_dies_with_its_trial(self, sandbox: Sandbox, tmp_path: Path) -> None:
        token = _fresh_token()
        result = await SandboxHarness.create(tmp_path, sandbox).python(f"'{token}'\n{DAEMON}")
        assert result.exit.code == 0
        assert pids_with(token) == []

    async def test_a_daemon_dies_when_its_trial_is_stopped(self, sandbox: Sandbox, tmp_path: Path) -> None:
        token = _fresh_token()
        script = f"'{token}'\n{DAEMON}\ntime.sleep(1000)"
        result = await SandboxHarness.create(tmp_path, sandbox).python(script, bounds=bounds_with(seconds=0.7))
        assert result.exit.stop is Stop.TIME
        assert pids_with(token) == []

    async def test_a_cancelled_task_leaves_no_process(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness, token = SandboxHarness.create(tmp_path, sandbox), _fresh_token()
        task = asyncio.create_task(harness.shell(f"sleep 1000; : {token}"))
        await asyncio.to_thread(wait_until, lambda: pids_with(token))
        await _cancel(task)
        assert pids_with(token) == []

    async def test_a_task_cancelled_during_set_up_leaves_nothing(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        # A folder of its own for temporary files, because other tests run at the same time.
        folder, before = harness.root / "temporary", tempfile.tempdir
        folder.mkdir()
        tempfile.tempdir = str(folder)
        try:
            for delay in _SET_UP_DELAYS:
                token = _fresh_token()
                task = asyncio.create_task(harness.shell(f"sleep 1000; : {token}"))
                await asyncio.sleep(delay)
                await _cancel(task)
                assert pids_with(token) == [], delay
                assert list(folder.iterdir()) == [], delay
        finally:
            tempfile.tempdir = before

    def test_a_trial_dies_when_loopty_is_killed(self, sandbox: Sandbox, tmp_path: Path) -> None:
        token, out = _fresh_token(), tmp_path / "out"
        with _start_loopty(sandbox, tmp_path, token) as process:
            wait_until(lambda: out.exists() and out.read_text())
            assert len(pids_with(token)) > 1
            process.kill()
        _wait_until_gone(token)

    def test_a_stopped_trial_dies_when_loopty_is_killed(self, sandbox: Sandbox, tmp_path: Path) -> None:
        token = _fresh_token()
        with _start_loopty(sandbox, tmp_path, token, "frozen") as process:
            assert process.wait() == -signal.SIGKILL
        _wait_until_gone(token)

    def test_a_trial_dies_when_loopty_is_killed_during_set_up(self, sandbox: Sandbox, tmp_path: Path) -> None:
        for delay in _SET_UP_DELAYS:
            token = _fresh_token()
            with _start_loopty(sandbox, tmp_path, token, str(delay)) as process:
                assert process.wait() == -signal.SIGKILL
            _wait_until_gone(token)

    async def test_many_runs_leave_nothing_behind(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        launch = harness.launch("/bin/true")
        await harness.run(launch)
        gc.collect()  # sandboxes of earlier tests remove their mounts
        before, mounts = _own_resources(), _own_mounts()
        for _ in range(self.runs):
            assert (await harness.run(launch)).exit.code == 0
        assert _own_resources() == before
        assert _own_mounts() - mounts == set()


class BoundConformance:
    """No trial uses more than its bounds, which are exact where the kernel can count."""

    async def test_a_trial_that_takes_too_long_is_killed(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        result = await harness.shell("echo begun; sleep 1000", bounds=bounds_with(seconds=1))
        assert (result.exit.code, result.exit.stop) == (_KILLED, Stop.TIME)
        assert result.out == "begun\n"

    async def test_a_trial_cancelled_before_it_starts_ends_at_once(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness, token, cancel = SandboxHarness.create(tmp_path, sandbox), _fresh_token(), asyncio.Event()
        cancel.set()
        result = await harness.run(harness.launch("/bin/sh", "-c", f"sleep 1000; : {token}"), cancel)
        assert result.exit.stop is Stop.CANCELLED
        assert pids_with(token) == []

    async def test_a_flood_of_output_is_cut_at_the_bound(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        result = await harness.shell("yes & yes >&2", bounds=bounds_with(output_mb=1))
        assert result.exit.stop is Stop.OUTPUT
        assert len(result.out) + len(result.err) == 1 << 20

    async def test_too_much_output_counts_even_when_the_command_has_ended(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        result = await harness.shell("head -c 1048577 /dev/zero", bounds=bounds_with(output_mb=1))
        assert result.exit.stop is Stop.OUTPUT
        assert len(result.out) == 1 << 20

    async def test_output_up_to_the_bound_is_kept_whole(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        result = await harness.shell("head -c 1048576 /dev/zero", bounds=bounds_with(output_mb=1))
        assert result.exit.stop is None
        assert len(result.out) == 1 << 20

    async def test_the_bound_on_processes_is_exact_and_each_trial_has_its_own(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        script = """
import os, time
processes = 1
try:
    while processes < 20:
        if os.fork() == 0:
            time.sleep(1000)
        processes += 1
except BlockingIOError:
    print(processes, flush=True)
    time.sleep(1)
"""
        harness = SandboxHarness.create(tmp_path, sandbox)
        command, bounds = (*harness.interpreter, script), bounds_with(processes=10)
        launches = [
            harness.launch(*command, bounds=bounds, stdout=harness.root / str(number)) for number in range(3)
        ]
        await asyncio.gather(*(sandbox.run(launch, asyncio.Event()) for launch in launches))
        assert [launch.stdout.read_text() for launch in launches] == ["10\n"] * 3

    async def test_a_fork_bomb_is_bounded_and_dies(self, sandbox: Sandbox, tmp_path: Path) -> None:
        # The shell that waits must not fork: a failed fork would end it, and the trial would end by itself.
        token = _fresh_token()
        script = f"bomb() {{ bomb | bomb & }}; bomb; : {token}; while :; do :; done"
        bounds = bounds_with(processes=20, seconds=1.5, output_mb=64)
        result = await SandboxHarness.create(tmp_path, sandbox).shell(script, bounds=bounds)
        assert result.exit.stop is Stop.TIME
        assert pids_with(token) == []

    async def test_memory_is_bounded_over_all_processes(self, sandbox: Sandbox, tmp_path: Path) -> None:
        script = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        own = bytearray(40 << 20)
        time.sleep(1000)
time.sleep(1000)
"""
        harness = SandboxHarness.create(tmp_path, sandbox)
        assert (await harness.python(script, bounds=bounds_with(memory_mb=200))).exit.stop is Stop.MEMORY

    async def test_disk_is_bounded_over_many_files(self, sandbox: Sandbox, tmp_path: Path) -> None:
        script = "i=0; while :; do head -c 100000 /dev/zero > $EDIT/$i; i=$((i+1)); done"
        harness = SandboxHarness.create(tmp_path, sandbox)
        assert (await harness.shell(script, bounds=bounds_with(disk_mb=4))).exit.stop is Stop.DISK

    async def test_one_file_cannot_grow_beyond_the_bound(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        await harness.shell("head -c 9000000 /dev/zero > $EDIT/file", bounds=bounds_with(disk_mb=2))
        assert (harness.edit / "file").stat().st_size == 2 << 20

    async def test_no_core_is_dumped(self, sandbox: Sandbox, tmp_path: Path) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        assert (await harness.shell("ulimit -c; ulimit -Hc")).out == "0\n0\n"

    async def test_the_kernel_kills_the_trial_first_when_memory_is_short(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        harness = SandboxHarness.create(tmp_path, sandbox)
        assert int((await harness.shell("read score < /proc/self/oom_score_adj; echo $score")).out) >= 500


async def _wait_for_cpu(freezer: Freezer, seconds: float) -> None:
    """Wait until the processes have used this much; an engine may take a moment to show them."""
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError):
            if freezer.cpu_seconds() >= seconds:
                return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def _fresh_token() -> str:
    """Make a word for a command line, by which the test finds its own processes."""
    return f"trial-{secrets.token_hex(8)}"


def _wait_until_gone(token: str) -> None:
    wait_until(lambda: not pids_with(token))


async def _failure(harness: SandboxHarness, launch: Launch) -> str:
    """Return the message of the SandboxError that the launch raises."""
    try:
        result = await harness.run(launch)
    except SandboxError as error:
        return str(error)
    raise AssertionError(f"the sandbox ran the launch: {result.exit}")


async def _cancel(task: asyncio.Task[object]) -> None:
    """Cancel a task and check that it ends as cancelled."""
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


def _start_loopty(sandbox: Sandbox, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Run a trial in another process; words are its token and, if any, the seconds until it kills itself."""
    kind = type(sandbox)
    return subprocess.Popen(
        [sys.executable, "-c", _LOOPTY, kind.__module__, kind.__qualname__, str(folder), *words],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(folder)},
    )


def _own_resources() -> tuple[list[str], list[str]]:
    """List the descriptors and the children of this process."""
    descriptors = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    children = [
        pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()
    ]
    return descriptors, children


def _own_mounts() -> set[str]:
    """Return the mounts that this process has made; those of other processes are in other namespaces."""
    mounts = Path("/proc/thread-self/mounts").read_text().splitlines()
    return {line.split()[1] for line in mounts if "/loopty-" in line}
