"""Bubblewrap's options for a trial: its namespaces and what it sees of the file system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Launch, SandboxError
from loopty.sandboxes.devices import device_facts

HOME = "/tmp/home"
_TEMPORARY = ("/tmp", "/dev/shm")

# Only what dynamic linking, name look-up, certificates, time zones and Debian's Java need: each entry costs a
# tenth of a millisecond per trial, and /etc as a whole holds secrets that its owner's trials could read.
_SETTINGS = (
    "alternatives",
    "group",
    "hosts",
    "java-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/certs",
    "ssl/certs",
    "ssl/openssl.cnf",
)


def system_paths() -> Iterator[Path]:
    """The system paths that every trial sees: programs, libraries and a few settings."""
    for name in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt"):
        yield Path(name)
    for pattern in _SETTINGS:
        yield from sorted(Path("/etc").glob(pattern))


def system_options() -> tuple[str, ...]:
    """The options that are the same for every trial on this machine."""
    return tuple(_system_options())


def _system_options() -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv")
    yield from ("--hostname", "trial", "--uid", "1000", "--gid", "1000")
    for path in system_paths():
        yield from _system_mount(path)
    yield from ("--proc", "/proc", "--dev", "/dev")


def _system_mount(path: Path) -> tuple[str, ...]:
    resolved = path.resolve()
    if resolved != path and resolved.is_relative_to("/usr"):
        return ("--symlink", str(resolved), str(path))
    return ("--ro-bind", str(resolved), str(path)) if resolved.exists() else ()


def trial_options(launch: Launch, sources: Sequence[int]) -> Iterator[str]:
    """The options for this launch; `sources` are the open descriptors of its mounts' sources, in order.

    Mounts keep their order, each over the earlier ones; scratch directories come over the mounts.
    """
    refuse_mount_points_that_a_trial_could_move(launch)
    if launch.network:
        yield from ("--share-net", "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf")
    size = str(launch.bounds.disk_mb << 20)
    for directory in _TEMPORARY:
        yield from ("--size", size, "--tmpfs", directory)
    yield from ("--dir", HOME)
    for mount, source in zip(launch.mounts, sources, strict=True):
        yield from ("--bind-fd" if mount.writable else "--ro-bind-fd", str(source), mount.target)
    for directory in launch.scratch:
        yield from ("--size", size, "--tmpfs", directory)
    yield from _link_options(launch)
    yield from _device_options(launch)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")
    for name, value in {"HOME": HOME, "TMPDIR": _TEMPORARY[0], **launch.env}.items():
        yield from ("--setenv", name, value)
    yield from ("--chdir", launch.cwd)


def _device_options(launch: Launch) -> Iterator[str]:
    for device in launch.devices:
        yield from ("--dev-bind", device, device)
    for path in device_facts(launch.devices):
        # The /proc of a trial has the facts of the machine already.
        if path.startswith("/sys"):
            yield from ("--ro-bind", path, path)


def _link_options(launch: Launch) -> Iterator[str]:
    """Links at paths where nothing is mounted and that nothing shows."""
    mounted = [
        PurePosixPath(path) for path in (*map(str, system_paths()), *(mount.target for mount in launch.mounts))
    ]
    for path, leads_to in launch.links.items():
        link = PurePosixPath(path)
        if not any(link.is_relative_to(other) or other.is_relative_to(link) for other in mounted):
            yield from ("--symlink", leads_to, path)


def temporary_directories(launch: Launch) -> tuple[str, ...]:
    """Where the trial sees file systems that are kept in memory."""
    return (*_TEMPORARY, *launch.scratch)


def refuse_mount_points_that_a_trial_could_move(launch: Launch) -> None:
    """Raise SandboxError for a mount point inside a directory that the trial may write."""
    # In a writable directory the trial can rename the parent of a mount point, and bubblewrap would follow links
    # that an earlier trial left there and create the mount point on the host.
    writable = [PurePosixPath(mount.target) for mount in launch.mounts if mount.writable]
    for target in (*(mount.target for mount in launch.mounts), *launch.scratch):
        for above in PurePosixPath(target).parents:
            if above in writable:
                raise SandboxError(f"{target} cannot be mounted inside {above}, which the trial may write")
