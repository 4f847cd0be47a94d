"""The order for the supervisor of one trial, and the Landlock domain: which files the trial may use, and how."""

# Without pathlib: its import would take as long as everything else.
# ruff: noqa: PTH110

from __future__ import annotations

import marshal
import os
import stat
import struct
from collections.abc import Iterable

from loopty.sandboxes.raw_calls import (
    LANDLOCK_ADD_RULE,
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
    system_call,
)

_MAX_BYTES = 1 << 26


class SupervisorOrder:
    """A command, its working directory, and what it may do. All fields are types that `marshal` can store."""

    # Not a dataclass: importing dataclasses takes as long as everything else that the supervisor does.
    __slots__ = (
        "abi",
        "argv",
        "call_filter",
        "channel",
        "cwd",
        "devices",
        "disk_bytes",
        "env",
        "launch_paths",
        "network",
        "notify_calls",
        "owner",
        "processes",
        "system_paths",
        "writable_paths",
    )

    def __init__(
        self,
        *,
        argv: tuple[str, ...],
        env: dict[str, str],
        cwd: str,
        channel: bool,
        owner: tuple[int, int] | None,
        abi: int,
        network: bool,
        call_filter: bytes,
        notify_calls: dict[int, str],
        processes: int,
        disk_bytes: int,
        system_paths: tuple[str, ...],
        launch_paths: tuple[str, ...],
        writable_paths: tuple[str, ...],
        devices: tuple[str, ...],
    ) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.channel = channel
        """Whether the supervisor's standard output also becomes the command's standard input."""
        self.owner = owner
        self.abi = abi
        self.network = network
        self.call_filter = call_filter
        """A system call filter that asks the supervisor about the `notify_calls`."""
        self.notify_calls = notify_calls
        """Names of calls by number."""
        self.processes = processes
        self.disk_bytes = disk_bytes
        self.system_paths = system_paths
        """Directories and files of the system, which can be read."""
        self.launch_paths = launch_paths
        """Directories and files of this launch that can only be read."""
        self.writable_paths = writable_paths
        self.devices = devices
        """Device files that the command may use."""

    def dump(self) -> bytes:
        """Return the order as bytes, for a supervisor on the same interpreter."""
        return marshal.dumps({name: getattr(self, name) for name in self.__slots__})


def read_order(descriptor: int) -> SupervisorOrder:
    """Read the order from an open file and close the file."""
    text = os.pread(descriptor, _MAX_BYTES, 0)
    os.close(descriptor)
    return SupervisorOrder(**marshal.loads(text))


_VERSION = 1
_PATH_BENEATH = 1

# Rights by the version that introduced them, from include/uapi/linux/landlock.h.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _FIRST_RIGHTS = 1 << 6, 1 << 11, (1 << 13) - 1
_LATER_RIGHTS = ((2, 1 << 13), (3, 1 << 14), (5, 1 << 15))  # move, truncate, ioctl on devices
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_TCP = 0b11
_TCP_VERSION = 4
_SCOPES = 0b11  # abstract sockets, signals
SCOPES_VERSION = 6

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_USE_DEVICE = _WRITE_FILE | _READ_FILE
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15

_DEVICES = ("null", "zero", "full", "random", "urandom")
# Not all of /proc: it shows the command lines of every other process on the host.
_MACHINE = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version", "vmstat")
# Not `net`, and not `task`, which contains `net` again: they show the connections and sockets of the host.
_OWN_PROCESS = (
    "auxv",
    "cgroup",
    "cmdline",
    "comm",
    "environ",
    "exe",
    "fd",
    "fdinfo",
    "io",
    "limits",
    "maps",
    "mountinfo",
    "mounts",
    "oom_score",
    "oom_score_adj",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
)


def version() -> int:
    """Return the version of Landlock that this kernel has. Raises OSError when it has none."""
    return system_call(LANDLOCK_CREATE_RULESET, None, 0, _VERSION)


def make_ruleset(
    abi: int, readable: Iterable[str], writable: Iterable[str], devices: Iterable[str], network: bool
) -> int:
    """Make rules, not yet in force, and return their descriptor; everything that they do not name is forbidden.

    Writable paths may also be read and executed.
    """
    handled = _FIRST_RIGHTS
    for since, right in _LATER_RIGHTS:
        if abi >= since:
            handled |= right
    attributes = struct.pack("=Q", handled)
    if abi >= _TCP_VERSION:
        attributes += struct.pack("=Q", 0 if network else _TCP)
    if abi >= SCOPES_VERSION:
        attributes += struct.pack("=Q", _SCOPES)
    rules = system_call(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    for path in readable:
        _allow(rules, path, _READ)
    for path in writable:
        _allow(rules, path, handled & ~(_MAKE_CHAR | _MAKE_BLOCK))
    for name in _DEVICES:
        _allow(rules, f"/dev/{name}", _USE_DEVICE)
    for path in devices:
        _allow(rules, path, handled & (_USE_DEVICE | _IOCTL))
        # CUDA names its threads there, and gives up where it cannot. Not to read: see above.
        _allow(rules, "/proc/self/task", handled & (_WRITE_FILE | _TRUNCATE))
    for name in (*_MACHINE, *(f"self/{name}" for name in _OWN_PROCESS)):
        if os.path.exists(f"/proc/{name}"):
            _allow(rules, f"/proc/{name}", _READ)
    return rules


def enter(rules: int) -> None:
    """Apply the rules to this thread and all that it starts; they can never be lifted."""
    system_call(LANDLOCK_RESTRICT_SELF, rules, 0)


def _allow(rules: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        system_call(LANDLOCK_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
