"""System calls that the standard library lacks."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    Word = int | bytes | None

# The same on every machine: only calls from before 2019 have different numbers.
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
_PIDFD_GETFD = 438

# x86_64, aarch64
_COLUMN = os.uname().machine == "aarch64"
_SECCOMP, _SETGROUPS, _SETRESGID = (317, 277)[_COLUMN], (116, 159)[_COLUMN], (119, 149)[_COLUMN]
_SETRESUID, _MOUNT, _UNSHARE = (117, 147)[_COLUMN], (165, 40)[_COLUMN], (272, 97)[_COLUMN]

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_SECCOMP_SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 8, 32
_EINVAL = 22

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_SLAVE = 0x2, 0x4, 0x1000, 0x4000, 0x80000

_libc = ctypes.CDLL(None, use_errno=True)


_syscall = _libc.syscall
_syscall.argtypes = (ctypes.c_long, *6 * (ctypes.c_void_p,))
_syscall.restype = ctypes.c_long
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_token = 0


def use_token(token: int) -> None:
    """Make later calls with this sixth argument, which the kernel ignores and a filter may ask for."""
    global _token
    _token = token


def system_call(number: int, a: Word = 0, b: Word = 0, c: Word = 0, d: Word = 0, e: Word = 0) -> int:
    """Make a system call and return its result. Raises OSError when it fails."""
    return _check(_syscall(number, a, b, c, d, e, _token))


def prctl(option: int, value: int, address: int = 0) -> None:
    """Change a property of this process."""
    _check(_prctl(option, value, address, 0, 0))


def unshare(flags: int) -> None:
    """Move this process to new namespaces."""
    system_call(_UNSHARE, flags)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount a file system, or change how one is mounted."""
    kind_word = None if kind is None else os.fsencode(kind)
    system_call(_MOUNT, os.fsencode(source), os.fsencode(target), kind_word, flags, data.encode())


def set_times(path: str, times: bytes | None) -> None:
    """Set the times of a path by utimensat; `times` are the two timespecs as bytes, None means now."""
    _check(_libc.utimensat(-100, os.fsencode(path), times, 0))


def copy_descriptor(process: int, descriptor: int) -> int:
    """Copy a descriptor that another process has open; `process` is a pidfd."""
    return system_call(_PIDFD_GETFD, process, descriptor, 0)


def connect(descriptor: int, address: bytes) -> None:
    """Connect a socket to an address given as the bytes of its struct."""
    _check(_libc.connect(descriptor, address, len(address)))


def install_filter(program: bytes) -> int:
    """Filter the calls of this thread from now on; returns the descriptor that gets the notifications."""
    instructions = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.addressof(instructions))
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        try:
            return system_call(_SECCOMP, _SECCOMP_SET_MODE_FILTER, flags, ctypes.addressof(header))
        except OSError as error:
            # Linux before 5.19 lacks the second flag: a signal may interrupt a call that is being answered.
            if error.errno != _EINVAL or not flags & _WAIT_KILLABLE:
                raise
    raise AssertionError


def set_user_of_this_thread(uid: int, gid: int) -> None:
    """Change the user of the calling thread alone: the C library would change all threads of the process."""
    system_call(_SETGROUPS, 0, None)
    system_call(_SETRESGID, gid, gid, gid)
    system_call(_SETRESUID, uid, uid, uid)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _check(result: int) -> int:
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
