"""Run a launch in namespaces that loopty makes itself, by a resident launcher: the default, and the cheapest."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import time
from typing import TYPE_CHECKING

from loopty.domain.launch import Exit, Gap, Launch, SandboxError, WarmProcessLost, WarmStart
from loopty.domain.task import SandboxSpec
from loopty.kit.trial_user import trial_owner
from loopty.sandboxes import trial_view
from loopty.sandboxes.cgroup import Cgroup
from loopty.sandboxes.launcher import Launcher
from loopty.sandboxes.namespace_launcher.launch_order import dump_order, send_descriptors
from loopty.sandboxes.namespace_tree import NamespaceTree
from loopty.sandboxes.supervise import supervise
from loopty.sandboxes.trial_start import close_with, copy_trees, make_order, make_pipes, trees_for_copy

if TYPE_CHECKING:
    from loopty.sandboxes.warm_pool import WarmPool
    from loopty.sandboxes.warm_process import WarmProcess

_KILLED = 128 + signal.SIGKILL


@functools.cache
def _shared_launcher() -> Launcher:
    """One for the whole process: what it prepares is the same for all trials."""
    return Launcher()


class Namespaces:
    """The default sandbox on Linux: what bubblewrap does, at a fraction of its cost."""

    name = "namespaces"

    def __init__(self, launcher: Launcher | None = None) -> None:
        self._launcher = launcher or _shared_launcher()
        self._warm: WarmPool | None = None

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The protections that cannot be given on this machine."""
        from loopty.sandboxes.namespace_gaps import namespace_gaps

        return tuple(namespace_gaps())

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; the whole process tree is dead on return.

        As root the trial runs as `trial_owner()`, who must be able to read the mounts. The exit code is 128 plus
        the number of the signal that ended the command, or 127 when the command is not found.
        """
        if launch.warm is not None and (end := await self._run_copy(launch, launch.warm, cancel)) is not None:
            return end
        for is_last in (False, True):
            tree, end = await self._run_once(launch, cancel, None)
            if end is not None:
                return end
            reason = tree.failure or self._launcher.failure()
            # A launcher that was killed is started again, unless the command may have run, or its channel is gone.
            if reason or tree.is_ready or launch.channel is not None or is_last:
                break
            if tree.was_never_started:
                self._launcher.forget_dying()
        raise SandboxError(_failure_message(reason))

    async def _run_copy(self, launch: Launch, warm: WarmStart, cancel: asyncio.Event) -> Exit | None:
        """Run a copy of a warm process; None when there is none, and the command starts by itself."""
        if launch.network or launch.devices or launch.channel is not None:
            warm.on_cold("its commands use the network or devices")
            return None
        from loopty.sandboxes.warm_pool import WarmPool
        from loopty.sandboxes.warm_process import WarmRefusal

        if self._warm is None:
            self._warm = WarmPool(Launcher(nests=True))
        try:
            process = await self._warm.process_for(launch, warm)
        except WarmRefusal as refusal:
            warm.on_cold(refusal.reason)
            return None
        tree, end = await self._run_once(launch, cancel, process)
        if end is not None:
            return end
        if tree.is_ready:
            raise WarmProcessLost(_failure_message(""))
        if tree.failure:
            warm.on_cold(self._warm.refuse(warm, tree.failure).reason)
        return None

    async def _run_once(
        self, launch: Launch, cancel: asyncio.Event, process: WarmProcess | None
    ) -> tuple[NamespaceTree, Exit | None]:
        """Run the launch, as a copy of a warm process if one is given; no exit when its sandbox failed."""
        with contextlib.ExitStack() as resources:
            tree = self._start(launch, resources, process)
            stop = await supervise(tree, launch, cancel) or tree.kernel_stop
            seconds = time.monotonic() - tree.start_time
        if tree.code is not None:
            return tree, Exit(tree.code, seconds, stop)
        return tree, Exit(_KILLED, seconds, stop) if stop is not None else None

    def _start(
        self, launch: Launch, resources: contextlib.ExitStack, process: WarmProcess | None
    ) -> NamespaceTree:
        with contextlib.ExitStack() as handed_over:
            if launch.channel is not None:
                close_with(launch.channel, handed_over)
            trial_view.refuse_mount_points_that_a_trial_could_move(launch)
            if process is None:
                trees, by_path = copy_trees(launch.mounts, handed_over), trial_owner() is None
            else:
                trees, by_path = trees_for_copy(self._launcher, launch.mounts, handed_over), False
            pipes, outputs = make_pipes(launch.channel, resources, handed_over)
            groups = []
            if (cgroup := Cgroup.create(launch.bounds)) is not None:
                resources.callback(cgroup.remove)
                groups.append(close_with(cgroup.open_processes(), handed_over))
            if launch.on_start and (freezer := Cgroup.create_freezer(cgroup)) is not None:
                resources.callback(freezer.remove)
                groups.append(close_with(freezer.open_processes(), handed_over))
            else:
                freezer = None
            order = make_order(launch, len(groups), by_path=by_path)
            if process is not None:
                process.set_variables(order)
            order_file = close_with(dump_order(order), handed_over)
            connection = process.start_trial() if process else self._launcher.start_trial(network=launch.network)
            tree = NamespaceTree(connection, pipes, launch, cgroup, freezer)
            resources.callback(tree.close)
            with contextlib.suppress(ConnectionError):
                send_descriptors(connection, [order_file, *outputs, *groups, *trees])
        return tree


def _failure_message(reason: str) -> str:
    from loopty.sandboxes.remedies import remedy

    advice = remedy(reason)
    return f"the namespaces of a trial failed: {reason or 'they were killed from outside'}" + (
        f"; {advice}" if advice else ""
    )


def make_sandbox(_spec: SandboxSpec) -> Namespaces:
    return Namespaces()
