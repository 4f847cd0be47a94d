"""Run a launch in a Landlock domain: for machines where bubblewrap may not make namespaces."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from loopty.domain.launch import Exit, Gap, Launch, Mount, Protection, SandboxError, Stop
from loopty.domain.task import SandboxSpec
from loopty.kit.process import trial_owner
from loopty.kit.temporary_folder import make_temporary_folder
from loopty.sandboxes import seccomp, trial_view
from loopty.sandboxes.cgroup import UNCOUNTED_MEMORY, Cgroup, can_make_cgroups
from loopty.sandboxes.landlock import order
from loopty.sandboxes.landlock.order import SupervisorOrder
from loopty.sandboxes.landlock.supervisor import ENDED
from loopty.sandboxes.layout import Layout, show_as_link
from loopty.sandboxes.resource_usage import Footprint, threads_of_tree
from loopty.sandboxes.root_bind import open_source
from loopty.sandboxes.supervise import SignalFreezer, pipes_of, supervise, wait_readable
from loopty.sandboxes.trial_view import device_facts

# A byte on standard input lets the supervisor begin; the end of input tells it to exit.
_START = """
import os, sys
os.read(0, 1) or os._exit(0)
sys.path.append(sys.argv[1])
from loopty.sandboxes.landlock.supervisor import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
_PACKAGES = str(Path(__file__).resolve().parents[3])
_TEMPORARY = "/tmp"
_RESOLVER = "/etc/resolv.conf"
_SEARCH_BY_GROUP = 0o710
_KILLED = 128 + signal.SIGKILL
_REPORT_BYTES = 1 << 16
# A supervisor kills its trial within milliseconds; one that was stopped (SIGSTOP) never does.
_KILL_SECONDS = 20.0
_TRUNCATE_VERSION = 3


class Landlock:
    """A sandbox without namespaces: Landlock guards files, a system call filter and a supervisor guard the rest.

    The mounts are laid out in a directory, and paths in the command, in its variables and in its working directory
    are translated to it (but not in the middle of a word or of a shell line); `TMPDIR` and `HOME` name directories
    of the trial. An honest program sees these differences from namespaces: the real /tmp and /dev/shm cannot be
    written, so named semaphores (as in Python's multiprocessing) fail; without the network there is no loopback
    either; the command sees only itself and the machine in /proc, and its children do not see even themselves;
    file watches, extended attributes and changes of owner fail.
    """

    name = "landlock"

    def __init__(self, abi: int | None = None) -> None:
        """`abi`: the version of Landlock to use, by default the kernel's."""
        self._abi = _landlock_version() if abi is None else abi
        self._owner = trial_owner()
        self._system = tuple(str(path) for path in trial_view.system_paths() if path.exists())

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """List the protections that Landlock cannot give on this kernel."""
        return tuple(self._gaps())

    def _gaps(self) -> Iterator[Gap]:
        yield Gap(
            Protection.CALLS,
            "a trial can learn whether a hidden file exists, and its size, times and owner (never its content)",
        )
        if not can_make_cgroups():
            yield Gap(Protection.MEMORY, UNCOUNTED_MEMORY)
        if self._abi < order.SCOPES_VERSION:
            needs = "(needs Linux 6.12)"
            yield Gap(Protection.OTHERS, f"processes of the same user can be signalled {needs}")
            yield Gap(Protection.SURVIVORS, f"a trial can kill the process that would end it {needs}")
        if self._abi < _TRUNCATE_VERSION and self._owner is None:
            yield Gap(Protection.WRITE, "files of the user can be emptied (needs Linux 6.2)")

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; the whole process tree is dead on return.

        As root the trial runs as `trial_owner()`, who must be able to read the mounts. The exit code is 128 plus
        the number of the signal that ended the command, or 127 when the command is not found.
        """
        with contextlib.ExitStack() as ours:
            if launch.channel is not None:
                ours.callback(os.close, launch.channel)
            call_filter = self._call_filter(launch)
            for mount in launch.mounts:
                os.close(open_source(mount.source))
            layout = Layout(make_temporary_folder("landlock").resolve(), launch, show_as_link, (_TEMPORARY,))
            cgroup = Cgroup.create(launch.bounds)
            try:
                await _finish_in_thread(lambda: self._lay_out(layout))
                tree = _start(self._make_order(layout, launch, call_filter), layout, launch, cgroup)
                ours.close()
                with contextlib.closing(tree):
                    return tree.exit(await supervise(tree, launch, cancel) or tree.kernel_stop)
            finally:
                if cgroup is not None:
                    cgroup.remove()
                await _finish_in_thread(layout.remove)

    def _call_filter(self, launch: Launch) -> seccomp.NotifyFilter:
        if self._abi < 1:
            raise SandboxError(
                "this kernel has no Landlock: it needs Linux 5.13 or later with `landlock` among the security "
                "modules (kernel parameter lsm=landlock,…)"
            )
        if (call_filter := seccomp.notify_filter(os.uname().machine, network=launch.network)) is None:
            raise SandboxError(f"there is no table of system calls for {os.uname().machine}")
        if not Path("/proc/thread-self/children").exists():
            raise SandboxError("the kernel does not list the children of a process (CONFIG_PROC_CHILDREN)")
        return call_filter

    def _lay_out(self, layout: Layout) -> None:
        layout.build()
        if self._owner is not None:
            os.chown(layout.root, -1, self._owner[1])
            layout.root.chmod(_SEARCH_BY_GROUP)
            for directory in layout.private_directories:
                os.chown(directory, *self._owner)

    def _make_order(self, layout: Layout, launch: Launch, call_filter: seccomp.NotifyFilter) -> SupervisorOrder:
        resolver = (_RESOLVER,) if launch.network and Path(_RESOLVER).exists() else ()
        sources = [mount.source for mount in launch.mounts if not mount.writable]
        return SupervisorOrder(
            argv=tuple(map(layout.translate, launch.argv)),
            env={"TMPDIR": str(layout.host_path(_TEMPORARY)), **layout.environment},
            cwd=layout.translate(launch.cwd),
            channel=launch.channel is not None,
            owner=self._owner,
            abi=self._abi,
            network=launch.network,
            call_filter=call_filter.program,
            notify_calls=call_filter.notify_calls,
            processes=launch.bounds.processes,
            disk_bytes=launch.bounds.disk_mb << 20,
            system_paths=(*self._system, *resolver, *device_facts(launch.devices)),
            launch_paths=tuple(map(str, (layout.root, *sources))),
            writable_paths=tuple(map(str, layout.writable_paths)),
            devices=launch.devices,
        )


class _SupervisedTree:
    """The process tree below a supervisor, which kills it and exits when the pipe to the supervisor closes."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        report: int,
        layout: Layout,
        launch: Launch,
        cgroup: Cgroup | None,
    ) -> None:
        self.pipes = pipes_of(process)
        self._process = process
        self._supervisor_pidfd = os.pidfd_open(process.pid)
        self._report = report
        self._start_time = time.monotonic()
        self._footprint = Footprint(
            process.pid, (), tuple(Mount(path, str(path), True) for path in layout.writable_paths)
        )
        self._bounds = launch.bounds
        self._cgroup = cgroup
        self._problem = ""
        if launch.on_start:
            launch.on_start(SignalFreezer(self._pids_alive))
        self._begin_task = asyncio.create_task(self._begin())

    def _pids_alive(self) -> Iterator[int]:
        """Yield the processes of the trial, without the supervisor, which answers their calls and ends them."""
        return (pid for pid in threads_of_tree(self._process.pid) if pid != self._process.pid)

    @property
    def kernel_stop(self) -> Stop | None:
        """Return Stop.MEMORY when the kernel killed a process of the tree for its memory, else None."""
        return Stop.MEMORY if self._cgroup is not None and self._cgroup.has_run_out_of_memory() else None

    def excess(self) -> Stop | None:
        return self.kernel_stop or self._footprint.excess(self._bounds)

    def kill(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def wait_until_dead(self) -> None:
        await wait_readable(self._supervisor_pidfd)
        self.kill_and_wait()

    def kill_and_wait(self) -> None:
        if self._process.returncode is not None:
            return
        self.kill()
        try:
            self._process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait()
            raise SandboxError("the supervisor of a trial did not end it in time") from error

    def exit(self, stop: Stop | None) -> Exit:
        """Tell how the command ended, from the supervisor's report. Raises SandboxError when it could not run."""
        report = os.pread(self._report, _REPORT_BYTES, 0)
        if report.startswith(ENDED):
            code, seconds = report.removeprefix(ENDED).split()
            return Exit(int(code) if int(code) >= 0 else 128 - int(code), float(seconds), stop)
        if stop is not None:
            return Exit(_KILLED, time.monotonic() - self._start_time, stop)
        message = self._problem or report.decode(errors="replace") or "its supervisor was killed from outside"
        raise SandboxError(f"landlock failed: {message}")

    def close(self) -> None:
        self._begin_task.cancel()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        os.close(self._supervisor_pidfd)
        os.close(self._report)

    async def _begin(self) -> None:
        """Let the supervisor begin once it is in its cgroup; its interpreter starts in the meantime."""
        try:
            if self._cgroup is not None:
                await asyncio.to_thread(self._cgroup.admit, self._process.pid)
        except OSError as error:
            self._problem = f"cannot bound the memory of a trial: {error.strerror}"
            self.kill()
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(b"\n")


def _start(order: SupervisorOrder, layout: Layout, launch: Launch, cgroup: Cgroup | None) -> _SupervisedTree:
    report = os.memfd_create("loopty-report")
    order_file = os.memfd_create("loopty-order")
    try:
        os.write(order_file, order.dump())
        command = (sys.executable, "-I", "-S", "-c", _START, _PACKAGES, str(order_file), str(report))
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if launch.channel is None else launch.channel,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=(order_file, report),
            env={},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        os.close(report)
        raise SandboxError(f"cannot start {sys.executable}: {error.strerror}") from error
    finally:
        os.close(order_file)
    return _SupervisedTree(process, report, layout, launch, cgroup)


def _landlock_version() -> int:
    try:
        return order.version()
    except OSError:
        return 0


async def _finish_in_thread(function: Callable[[], None]) -> None:
    """Run a function in a thread and return only when it is done, even when cancelled."""
    action = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        await asyncio.shield(action)
    except asyncio.CancelledError:
        await action
        raise


def make_sandbox(_spec: SandboxSpec) -> Landlock:
    return Landlock()
