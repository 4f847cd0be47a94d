"""Bubblewrap's options for a trial: its namespaces and what it sees of the file system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.domain.launch import Launch
from loopty.sandboxes import trial_view


def system_options() -> tuple[str, ...]:
    """The options that are the same for every trial on this machine."""
    return tuple(_system_options())


def _system_options() -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv")
    yield from ("--hostname", trial_view.HOST_NAME)
    yield from ("--uid", str(trial_view.UID), "--gid", str(trial_view.GID))
    for entry in trial_view.system_entries():
        yield from ("--symlink" if entry.is_link else "--ro-bind", entry.source, entry.path)
    yield from ("--proc", "/proc", "--dev", "/dev")


def trial_options(launch: Launch, sources: Sequence[int]) -> Iterator[str]:
    """The options for this launch; `sources` are the open descriptors of its mounts' sources, in order.

    Mounts keep their order, each over the earlier ones; scratch directories come over the mounts.
    """
    trial_view.refuse_mount_points_that_a_trial_could_move(launch)
    if launch.network:
        yield from ("--share-net", "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf")
    size = str(launch.bounds.disk_mb << 20)
    for directory in trial_view.TEMPORARY:
        yield from ("--size", size, "--tmpfs", directory)
    yield from ("--dir", trial_view.HOME)
    for mount, source in zip(launch.mounts, sources, strict=True):
        yield from ("--bind-fd" if mount.writable else "--ro-bind-fd", str(source), mount.target)
    for directory in launch.scratch:
        yield from ("--size", size, "--tmpfs", directory)
    for path, leads_to in trial_view.links_of(launch):
        yield from ("--symlink", leads_to, path)
    for device in launch.devices:
        yield from ("--dev-bind", device, device)
    for path in trial_view.facts_of_devices(launch):
        yield from ("--ro-bind", path, path)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")
    for name, value in trial_view.environment_of(launch).items():
        yield from ("--setenv", name, value)
    yield from ("--chdir", launch.cwd)
