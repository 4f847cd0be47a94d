"""What a trial with namespaces of its own sees: system paths, temporary directories, links, variables."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from loopty.domain.launch import Launch, SandboxError
from loopty.kit.records import Record
from loopty.sandboxes.devices import device_facts

HOST_NAME, UID, GID = "trial", 1000, 1000
HOME = "/tmp/home"
TEMPORARY = ("/tmp", "/dev/shm")

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


@functools.cache
def system_paths() -> tuple[Path, ...]:
    """The system paths that every trial sees: programs, libraries and a few settings."""
    programs = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt")
    settings = (path for pattern in _SETTINGS for path in sorted(Path("/etc").glob(pattern)))
    return (*map(Path, programs), *settings)


class SystemEntry(Record):
    """A system path as every trial sees it: a link into /usr, or the file or directory `source` itself."""

    path: str
    source: str
    is_link: bool


def system_entries() -> Iterator[SystemEntry]:
    """The system paths that exist on this machine."""
    for path in system_paths():
        resolved = path.resolve()
        is_link = resolved != path and resolved.is_relative_to("/usr")
        if is_link or resolved.exists():
            yield SystemEntry(str(path), str(resolved), is_link)


def links_of(launch: Launch) -> Iterator[tuple[str, str]]:
    """The paths of links, where nothing is mounted and that nothing shows, and where they lead."""
    # As texts, because pathlib would take a millisecond for all of them.
    mounted = (*_system_texts(), *(_as_folder(mount.target) for mount in launch.mounts))
    for path, leads_to in launch.links.items():
        link = _as_folder(path)
        if not link.startswith(mounted) and not any(other.startswith(link) for other in mounted):
            yield path, leads_to


@functools.cache
def _system_texts() -> tuple[str, ...]:
    return tuple(_as_folder(str(path)) for path in system_paths())


def _as_folder(path: str) -> str:
    """The path with one slash at its end, which paths below it begin with."""
    return f"{path.rstrip('/')}/"


def facts_of_devices(launch: Launch) -> tuple[str, ...]:
    """What the drivers of the launch's devices read in /sys; the /proc of a trial has the other facts already."""
    return tuple(path for path in device_facts(launch.devices) if path.startswith("/sys"))


def environment_of(launch: Launch) -> dict[str, str]:
    """The variables of the command."""
    return {"HOME": HOME, "TMPDIR": TEMPORARY[0], **launch.env}


def temporary_directories(launch: Launch) -> tuple[str, ...]:
    """Where the trial sees file systems that are kept in memory."""
    return (*TEMPORARY, *launch.scratch)


def refuse_mount_points_that_a_trial_could_move(launch: Launch) -> None:
    """Raise SandboxError for a mount point inside a directory that the trial may write."""
    # In a writable directory the trial can rename the parent of a mount point, and bubblewrap would follow links
    # that an earlier trial left there and create the mount point on the host.
    writable = [os.path.normpath(mount.target) for mount in launch.mounts if mount.writable]
    for target in (*(mount.target for mount in launch.mounts), *launch.scratch):
        normal = os.path.normpath(target)
        for above in writable:
            if normal != above and normal.startswith(_as_folder(above)):
                raise SandboxError(f"{target} cannot be mounted inside {above}, which the trial may write")
