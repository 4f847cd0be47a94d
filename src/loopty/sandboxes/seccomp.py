"""System calls that no trial needs, refused by a classic BPF program."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000

# Offsets in struct seccomp_data. Both machines are little endian: the low half of an argument comes first.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

# x32 calls arrive under the x86_64 architecture with this bit set and would pass by every number below.
_X32_BIT = 0x40000000

_CLONE_NEWUSER = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16


@dataclass(frozen=True, slots=True)
class _Machine:
    audit: int
    column: int


_MACHINES = {"x86_64": _Machine(0xC000003E, 0), "aarch64": _Machine(0xC00000B7, 1)}

# name: (x86_64, aarch64), from arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h
_FORBIDDEN = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}

# Answered as a kernel without them would, because programs have a fallback for that (a file in /dev/shm for
# memfd_create, epoll for io_uring, clone for clone3). Memory behind a memfd, a System V segment or a message
# queue belongs to no process and to no mount, so the watcher could not count it. The flags of clone3 lie
# behind a pointer, which a filter cannot read.
_ABSENT = {
    "clone3": (435, 435),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "semget": (64, 190),
    "shmget": (29, 194),
}

_CLONE, _IOCTL, _SOCKET, _SOCKETPAIR = (56, 220), (16, 29), (41, 198), (53, 199)


def program(machine: str) -> bytes | None:
    """The filter for `machine` as bubblewrap reads it, or None where we have no table of numbers."""
    if (known := _MACHINES.get(machine)) is None:
        return None
    return b"".join(_instructions(known))


def _instructions(machine: _Machine) -> Iterator[bytes]:
    # A 32-bit program on a 64-bit kernel counts its calls differently, so no rule below would mean the same.
    yield _operation(_LOAD, _ARCHITECTURE)
    yield _operation(_EQUAL, machine.audit, then=1)
    yield _operation(_RETURN, _KILL_PROCESS)
    yield _operation(_LOAD, _NUMBER)
    yield _operation(_AT_LEAST, _X32_BIT, otherwise=1)
    yield _operation(_RETURN, _KILL_PROCESS)

    for denied, error in ((_FORBIDDEN, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for numbers in denied.values():
            yield _operation(_EQUAL, numbers[machine.column], otherwise=1)
            yield _operation(_RETURN, _ERRNO | error)

    # The number is lost when an argument is loaded, so each of these rules ends with a verdict of its own.
    new_user = (_operation(_AND, _CLONE_NEWUSER), _operation(_EQUAL, _CLONE_NEWUSER, otherwise=1))
    yield from _rule(_CLONE[machine.column], 0, *new_user, _refusal(errno.EPERM), _ALLOWED)
    typing = (_operation(_EQUAL, _TIOCSTI, then=1), _operation(_EQUAL, _TIOCLINUX, otherwise=1))
    yield from _rule(_IOCTL[machine.column], 1, *typing, _refusal(errno.EPERM), _ALLOWED)
    families = (_UNIX, _INET, _INET6, _NETLINK)
    known = [_operation(_EQUAL, family, then=len(families) - place) for place, family in enumerate(families)]
    for call in (_SOCKET, _SOCKETPAIR):
        yield from _rule(call[machine.column], 0, *known, _refusal(errno.EAFNOSUPPORT), _ALLOWED)
    yield _ALLOWED


def _rule(number: int, argument: int, *verdict: bytes) -> Iterator[bytes]:
    """Judge one call by one argument; every other call goes on behind the rule."""
    yield _operation(_EQUAL, number, otherwise=1 + len(verdict))
    yield _operation(_LOAD, _ARGUMENTS + 8 * argument)
    yield from verdict


def _operation(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One struct sock_filter; `then` and `otherwise` say how many instructions to skip."""
    return struct.pack("<HBBI", code, then, otherwise, value)


def _refusal(error: int) -> bytes:
    return _operation(_RETURN, _ERRNO | error)


_ALLOWED = _operation(_RETURN, _ALLOW)
