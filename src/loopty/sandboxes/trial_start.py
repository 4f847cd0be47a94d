"""What loopty hands over to the first process of a trial: its order, outputs, cgroups and trees of files."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

from loopty.domain.launch import Launch, Mount, SandboxError
from loopty.kit.trial_user import trial_owner
from loopty.sandboxes import trial_view
from loopty.sandboxes.kernel_features import counts_processes_by_namespace
from loopty.sandboxes.launcher import Launcher
from loopty.sandboxes.namespace_launcher.launch_order import TrialOrder
from loopty.sandboxes.namespace_launcher.namespace_calls import clone_tree
from loopty.sandboxes.root_bind import open_source

_RESOLVER = Path("/etc/resolv.conf")


def make_order(launch: Launch, groups: int, *, by_path: bool, nests: bool = False) -> TrialOrder:
    """The order for a launch; `by_path`: the launcher copies the trees, `nests`: the command is a warm process."""
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, launch.bounds.disk_mb << 20)]
    # The copies of a warm process count as its own, and have limits of their own.
    if counts_processes_by_namespace() and not nests:
        # The kernel counts the threads in the trial's own user namespace, its first process included.
        limits.append((resource.RLIMIT_NPROC, launch.bounds.processes + 1))
    return TrialOrder(
        argv=launch.argv,
        cwd=launch.cwd,
        env=trial_view.environment_of(launch),
        home=trial_view.HOME,
        temporary=trial_view.TEMPORARY,
        scratch=launch.scratch,
        disk_bytes=launch.bounds.disk_mb << 20,
        mounts=tuple(
            (mount.target, str(mount.source) if by_path else None, mount.writable) for mount in launch.mounts
        ),
        links=tuple(trial_view.links_of(launch)),
        devices=launch.devices,
        facts=trial_view.facts_of_devices(launch),
        network=launch.network,
        resolver=str(_RESOLVER.resolve()) if launch.network and _RESOLVER.exists() else "",
        channel=launch.channel is not None,
        groups=groups,
        limits=tuple(limits),
        waits=launch.on_start is not None,
        nests=nests,
    )


def copy_trees(mounts: tuple[Mount, ...], handed_over: contextlib.ExitStack) -> list[int]:
    """Copies of the trees at bind sources, whose paths the unprivileged user may be unable to reach.

    None where trials run as the current user, who has no right to make one here: the launcher makes it then.
    """
    trees = []
    for mount in mounts:
        descriptor = open_source(mount.source)
        try:
            if trial_owner() is not None:
                trees.append(close_with(clone_tree(descriptor), handed_over))
        except OSError as error:
            words = f"cannot show {mount.source} to an unprivileged user: {error.strerror}"
            raise SandboxError(words) from error
        finally:
            os.close(descriptor)
    return trees


def trees_for_copy(launcher: Launcher, mounts: tuple[Mount, ...], handed_over: contextlib.ExitStack) -> list[int]:
    """Copies of the trees at bind sources, for a copy of a warm process: it cannot reach any path of the host."""
    trees = copy_trees(mounts, handed_over)
    if trial_owner() is None and mounts:
        trees = launcher.copy_sources(tuple(str(mount.source) for mount in mounts))
        for tree in trees:
            close_with(tree, handed_over)
    return trees


def make_pipes(
    channel: int | None, resources: contextlib.ExitStack, handed_over: contextlib.ExitStack
) -> tuple[tuple[int | None, int], list[int]]:
    """The ends of the outputs' pipes: to read from, None where a channel is the output, and to hand over."""
    ends = [os.pipe2(os.O_CLOEXEC) for _ in range(1 if channel is not None else 2)]
    for ours, theirs in ends:
        close_with(ours, resources)
        close_with(theirs, handed_over)
    if channel is not None:
        return (None, ends[0][0]), [channel, ends[0][1]]
    return (ends[0][0], ends[1][0]), [theirs for _, theirs in ends]


def close_with(descriptor: int, stack: contextlib.ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor
