"""System calls that make namespaces, mounts and unprivileged processes, and the words by which others see a
process in /proc.
"""

from __future__ import annotations

import ctypes
import os
import struct

from loopty.sandboxes.raw_calls import prctl, system_call

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x02000000, 0x10000000, 0x40000000
_CLONE_NEWUTS, _CLONE_NEWIPC, _CLONE_NEWPID = 0x04000000, 0x08000000, 0x20000000
NAMESPACES = CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID
_CLONE_PIDFD = 0x1000
_SIGCHLD = 17

# The same on every machine: only calls from before 2019 have different numbers.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
# x86_64, aarch64
_COLUMN = os.uname().machine == "aarch64"
_PIVOT_ROOT, _UMOUNT2 = (155, 41)[_COLUMN], (166, 39)[_COLUMN]
_CAPSET, _CLONE = (126, 91)[_COLUMN], (56, 220)[_COLUMN]

_AT_EMPTY_PATH, _AT_RECURSIVE, _OPEN_TREE_CLONE, _O_CLOEXEC = 0x1000, 0x8000, 1, 0o2000000
_MOVE_FROM_DESCRIPTOR, _MOVE_TO_DESCRIPTOR = 0x4, 0x40
READ_ONLY, NO_SUID, NO_DEVICES = 0x1, 0x2, 0x4
_DETACH = 2

_PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 22, 24, 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION = 0x20080522
_EINVAL = 22

# Without releasing the interpreter's lock: the child has no other thread that could hand it over.
_python_libc = ctypes.PyDLL(None, use_errno=True)


def fork_into(namespaces: int) -> tuple[int, int]:
    """Fork into new namespaces: the child gets (0, -1), the parent its pid and a pidfd. For one thread only."""
    # Not clone3: filters cannot read its flags, so one that lets this process make namespaces would allow all.
    pidfd = ctypes.c_int(-1)
    pid = _python_libc.syscall(
        ctypes.c_long(_CLONE),
        ctypes.c_ulong(namespaces | _CLONE_PIDFD | _SIGCHLD),
        None,
        ctypes.byref(pidfd),
        None,
        None,
    )
    if pid == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid, pidfd.value if pid else -1


def clone_tree(descriptor: int) -> int:
    """Copy what is mounted at an open path and below; attached to nothing, it can be mounted anywhere."""
    flags = _OPEN_TREE_CLONE | _O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    return system_call(_OPEN_TREE, descriptor, b"", flags)


def attach_tree(tree: int, target: int, attributes: int) -> None:
    """Mount a copied tree at an open path, with these attributes on all mounts of the tree."""
    if attributes:
        words = struct.pack("=QQQQ", attributes, 0, 0, 0)
        system_call(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, words, len(words))
    system_call(_MOVE_MOUNT, tree, b"", target, b"", _MOVE_FROM_DESCRIPTOR | _MOVE_TO_DESCRIPTOR)


def change_root(new: str, old: str) -> None:
    """Make a mount point the root of this mount namespace, and mount the former root at `old`."""
    system_call(_PIVOT_ROOT, os.fsencode(new), os.fsencode(old))


def unmount(path: str) -> None:
    """Detach what is mounted last at a path."""
    system_call(_UMOUNT2, os.fsencode(path), _DETACH)


def forbid_new_privileges() -> None:
    """Let programs that this process starts gain no rights from set-uid bits or capabilities of files."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every capability, also for programs that are started later."""
    try:
        for capability in range(64):
            prctl(_PR_CAPBSET_DROP, capability)
    except OSError as error:
        # The kernel does not know this one, and none after it.
        if error.errno != _EINVAL:
            raise
    none = struct.pack("=6I", *(6 * (0,)))
    system_call(_CAPSET, struct.pack("=Ii", _CAPABILITY_VERSION, 0), none)


def filter_calls(program: bytes) -> None:
    """Filter the system calls of this process and of all that it starts."""
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(instructions))
    buffer = ctypes.create_string_buffer(header, len(header))
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(buffer))


_ARGUMENTS_START, _ARGUMENTS_END = 45, 46
_PR_SET_NAME = 15


class CommandLine:
    """The command line of this process and, in their own memory, of its copies."""

    def __init__(self) -> None:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - without pathlib, see the other modules
            fields = file.read().rpartition(b")")[2].split()
        self._start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_END])
        self._size = end - self._start

    def replace(self, words: bytes, name: bytes) -> None:
        """Show other words, as many as there is room for, and another name of the process."""
        # The last byte stays zero: the kernel reads on otherwise.
        ctypes.memmove(self._start, words[: self._size - 1].ljust(self._size, b"\0"), self._size)
        text = ctypes.create_string_buffer(name)
        prctl(_PR_SET_NAME, ctypes.addressof(text))
