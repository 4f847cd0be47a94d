"""System call filters for trials, as classic BPF programs: they refuse the calls that no trial needs."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping, Sequence

from loopty.kit.records import Record

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_XOR, _STORE, _LOAD_SECOND, _OR_SECOND, _JUMP = 0xA4, 0x02, 0x61, 0x4C, 0x05
_ALLOW, _NOTIFY, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000

# Offsets in struct seccomp_data. Both machines are little endian: the low half of an argument comes first.
_NUMBER, _ARCHITECTURE, _ARGUMENTS, _SIXTH_ARGUMENT = 0, 4, 16, 56

# x32 calls arrive as x86_64 calls with this bit set and would match none of the numbers below.
_X32_BIT = 0x40000000

_CLONE_NEWUSER = 0x10000000
# Who may reach a program of another user that has such a bit becomes that user: nothing of a trial may have one.
SET_ID = 0o6000
CREATES = 0o100 | 0o20000000  # O_CREAT and what is its own in O_TMPFILE: otherwise nobody reads the mode
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _SOCKET_TYPE = 1, 5, 0xF
# The groups of ioctl that belong to file systems: attributes, snapshots, clones.
_FILE_SYSTEM_IOCTLS, _IOCTL_GROUP = (0x6600, 0x5800, 0x9400), 0xFF00


class _Machine(Record):
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

# These fail as on a kernel without them, because programs have a fallback for that (a file in /dev/shm for
# memfd_create, epoll for io_uring, clone for clone3). Memory behind a memfd, a System V segment or a message queue
# belongs to no process and to no mount, so the watcher could not count it. The flags of clone3 and the mode of
# openat2 are behind a pointer, which a filter cannot read.
_ABSENT = {
    "clone3": (435, 435),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mq_open": (240, 180),
    "openat2": (437, 437),
    "process_madvise": (440, 440),
    "msgget": (68, 186),
    "semget": (64, 190),
    "shmget": (29, 194),
}

# What a warm process calls to make the namespaces of its copies, in which the whole filter is set.
_NESTING = ("mount", "mount_setattr", "move_mount", "open_tree", "pivot_root", "umount2", "unshare")

_CLONE, _IOCTL, _SOCKET, _SOCKETPAIR = (56, 220), (16, 29), (41, 198), (53, 199)

# The number of a call, and which of its arguments is the mode of a file.
MODES = {
    "chmod": ((90, None), 1),
    "creat": ((85, None), 1),
    "fchmod": ((91, 52), 1),
    "fchmodat": ((268, 53), 2),
    "fchmodat2": ((452, 452), 2),
    "mknod": ((133, None), 1),
    "mknodat": ((259, 33), 2),
}
# The mode is the argument after the flags.
OPENS = {"open": ((2, None), 1), "openat": ((257, 56), 2)}

# Advice to drop from memory what is only read: a later trial would notice. The kernel
# need not follow advice, so these calls succeed and do nothing: the number, which argument, which values of it.
# What is left is one bit, once, in a file that was not read before: whether it is in memory.
FORGETS = {
    "fadvise64": ((221, 223), 3, (4,)),  # POSIX_FADV_DONTNEED
    "madvise": ((28, 233), 2, (20, 21)),  # MADV_COLD, MADV_PAGEOUT
}

# The tables below are for a trial without namespaces, which shares the machine with the host's processes.

# Owners and priorities of files and processes that are not the trial's own, and existing queues and segments.
_OTHERS_FORBIDDEN = {
    "chown": (92, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "ioprio_set": (251, 30),
    "lchown": (94, None),
}
_OTHERS_ABSENT = {
    "fanotify_init": (300, 262),
    "file_setattr": (469, 469),
    "futimesat": (261, None),
    "inotify_add_watch": (254, 27),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "utime": (132, None),
    "utimes": (235, None),
}
# These fail as on a file system without extended attributes.
_ATTRIBUTES = {
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
}
# Allowed only for the caller itself: their first argument must be 0.
_FOR_ITSELF = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
_SETPRIORITY = (141, 140)
# The effect of these depends on memory or on other processes, so the supervisor decides.
_NOTIFY_CALLS = {
    "chmod": (90, None),
    "connect": (42, 203),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fork": (57, None),
    "utimensat": (280, 88),
    "vfork": (58, None),
}


class NotifyFilter(Record):
    """A filter that notifies a listener of some calls, and the names of those calls by number."""

    program: bytes
    notify_calls: dict[int, str]


def program(machine: str, *, nests: bool = False, token: int = 0) -> bytes | None:
    """Return the filter for `machine` as bubblewrap reads it, or None if we have no call numbers for it.

    `nests`: for a process that makes namespaces, also of users, for others. `token`: for one that does it by calls
    with this sixth argument, while the processes that it starts, which do not know the token, cannot.
    """
    if (known := _MACHINES.get(machine)) is None:
        return None
    return b"".join(_instructions(known, nests=nests, token=token))


def notify_filter(machine: str, *, network: bool) -> NotifyFilter | None:
    """Return the filter for a trial without its own namespaces, or None if we have no call numbers for it."""
    if (known := _MACHINES.get(machine)) is None:
        return None
    notify_calls = {
        number: name for name, numbers in _NOTIFY_CALLS.items() if (number := numbers[known.column]) is not None
    }
    notify_calls[_CLONE[known.column]] = "clone"
    return NotifyFilter(b"".join(_notify_instructions(known, network)), notify_calls)


def _instructions(machine: _Machine, *, nests: bool, token: int) -> Iterator[bytes]:
    has_exceptions = nests or token != 0
    forbidden = {
        name: numbers for name, numbers in _FORBIDDEN.items() if not has_exceptions or name not in _NESTING
    }
    yield from _denials(machine, (forbidden, errno.EPERM), (_ABSENT, errno.ENOSYS))
    if token:
        yield from _token_rule([_FORBIDDEN[name][machine.column] for name in _NESTING], token)
    if token or not nests:
        has_new_user = _token_verdict(token) if nests else (_refusal(errno.EPERM),)
        yield from _clone_rule(machine, _ALLOWED, has_new_user)
    typing = (_operation(_EQUAL, _TIOCSTI, then=1), _operation(_EQUAL, _TIOCLINUX, otherwise=1))
    yield from _rule(_IOCTL[machine.column], 1, *typing, _refusal(errno.EPERM), _ALLOWED)
    yield from _set_id_rules(machine)
    yield from _forget_rules(machine)
    families = (_UNIX, _INET, _INET6, _NETLINK)
    for call in (_SOCKET, _SOCKETPAIR):
        verdict = (*_any_of(families), _refusal(errno.EAFNOSUPPORT), _ALLOWED)
        yield from _rule(call[machine.column], 0, *verdict)
    yield _ALLOWED


def _notify_instructions(machine: _Machine, network: bool) -> Iterator[bytes]:
    yield from _denials(
        machine,
        (_FORBIDDEN, errno.EPERM),
        (_OTHERS_FORBIDDEN, errno.EPERM),
        (_ABSENT, errno.ENOSYS),
        (_OTHERS_ABSENT, errno.ENOSYS),
        (_ATTRIBUTES, errno.EOPNOTSUPP),
    )
    for numbers in _NOTIFY_CALLS.values():
        if (number := numbers[machine.column]) is not None:
            yield _operation(_EQUAL, number, otherwise=1)
            yield _operation(_RETURN, _NOTIFY)
    yield from _clone_rule(machine, _operation(_RETURN, _NOTIFY), (_refusal(errno.EPERM),))

    itself = (_operation(_EQUAL, 0, then=1), _refusal(errno.EPERM))
    for numbers in _FOR_ITSELF.values():
        yield from _rule(numbers[machine.column], 0, *itself, _ALLOWED)
    second = _operation(_LOAD, _ARGUMENTS + 8)
    yield from _rule(_SETPRIORITY[machine.column], 0, *itself, second, *itself, _ALLOWED)

    typing = (_operation(_EQUAL, _TIOCSTI, then=1), _operation(_EQUAL, _TIOCLINUX, otherwise=1))
    yield from _set_id_rules(machine)
    yield from _forget_rules(machine)
    groups = (_operation(_AND, _IOCTL_GROUP), *_any_of(_FILE_SYSTEM_IOCTLS), _ALLOWED, _refusal(errno.ENOTTY))
    yield from _rule(_IOCTL[machine.column], 1, *typing, _refusal(errno.EPERM), *groups)

    # A datagram socket can send to an address without a connect call, so the listener would not be notified.
    kinds = (second, _operation(_AND, _SOCKET_TYPE), *_any_of((_STREAM, _SEQPACKET)))
    local = (*kinds, _refusal(errno.EPROTONOSUPPORT), _ALLOWED)
    others = (*_any_of((_INET, _INET6, _NETLINK) if network else ()), _refusal(errno.EAFNOSUPPORT), _ALLOWED)
    for call in (_SOCKET, _SOCKETPAIR):
        is_local = _operation(_EQUAL, _UNIX, otherwise=len(local))
        yield from _rule(call[machine.column], 0, is_local, *local, *others)
    yield _ALLOWED


def _denials(machine: _Machine, *tables: tuple[Mapping[str, tuple[int, int | None]], int]) -> Iterator[bytes]:
    # A 32-bit program on a 64-bit kernel has other call numbers, so the rules below would not fit.
    yield _operation(_LOAD, _ARCHITECTURE)
    yield _operation(_EQUAL, machine.audit, then=1)
    yield _operation(_RETURN, _KILL_PROCESS)
    yield _operation(_LOAD, _NUMBER)
    yield _operation(_AT_LEAST, _X32_BIT, otherwise=1)
    yield _operation(_RETURN, _KILL_PROCESS)

    for denied, error in tables:
        for numbers in denied.values():
            if (number := numbers[machine.column]) is not None:
                yield _operation(_EQUAL, number, otherwise=1)
                yield _refusal(error)


def _clone_rule(machine: _Machine, verdict: bytes, has_new_user: Sequence[bytes]) -> Iterator[bytes]:
    # Loading an argument overwrites the call number, so each rule over arguments ends with its own verdict.
    is_new_user = _operation(_EQUAL, _CLONE_NEWUSER, otherwise=len(has_new_user))
    yield from _rule(
        _CLONE[machine.column], 0, _operation(_AND, _CLONE_NEWUSER), is_new_user, *has_new_user, verdict
    )


def _set_id_rules(machine: _Machine) -> Iterator[bytes]:
    """Refuse to give a file a bit by which others become its owner or its group."""
    no_set_id = (_operation(_AND, SET_ID), _operation(_EQUAL, 0, then=1), _refusal(errno.EPERM), _ALLOWED)
    for numbers, mode in MODES.values():
        if (number := numbers[machine.column]) is not None:
            yield from _rule(number, mode, *no_set_id)
    creates = (_operation(_AND, CREATES), _operation(_EQUAL, 0, otherwise=1), _ALLOWED)
    for numbers, flags in OPENS.values():
        if (number := numbers[machine.column]) is not None:
            mode_of_new = _operation(_LOAD, _ARGUMENTS + 8 * (flags + 1))
            yield from _rule(number, flags, *creates, mode_of_new, *no_set_id)


def _forget_rules(machine: _Machine) -> Iterator[bytes]:
    """Let advice to forget files succeed without any effect."""
    for numbers, argument, values in FORGETS.values():
        yield from _rule(numbers[machine.column], argument, *_any_of(values), _ALLOWED, _refusal(0))


def _token_rule(numbers: Sequence[int], token: int) -> Iterator[bytes]:
    """Allow calls of these numbers when the sixth argument is the token; other calls continue after the rule."""
    verdict = _token_verdict(token)
    yield from _any_of(numbers)
    yield _operation(_JUMP, len(verdict))
    yield from verdict


def _token_verdict(token: int) -> tuple[bytes, ...]:
    """Allow the call when the sixth argument is the token."""
    return (
        # Both halves are compared at once, so that the time of a refusal says nothing about either.
        _operation(_LOAD, _SIXTH_ARGUMENT),
        _operation(_XOR, token & 0xFFFFFFFF),
        _operation(_STORE, 0),
        _operation(_LOAD, _SIXTH_ARGUMENT + 4),
        _operation(_XOR, token >> 32),
        _operation(_LOAD_SECOND, 0),
        _operation(_OR_SECOND, 0),
        _operation(_EQUAL, 0, otherwise=1),
        _ALLOWED,
        _refusal(errno.EPERM),
    )


def _any_of(values: Sequence[int]) -> list[bytes]:
    """Skip the next instruction after these when the register holds one of the values."""
    return [_operation(_EQUAL, value, then=len(values) - index) for index, value in enumerate(values)]


def _rule(number: int, argument: int, *verdict: bytes) -> Iterator[bytes]:
    """Decide one call by one argument; every other call continues after the rule."""
    yield _operation(_EQUAL, number, otherwise=1 + len(verdict))
    yield _operation(_LOAD, _ARGUMENTS + 8 * argument)
    yield from verdict


def _operation(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """Pack one struct sock_filter; `then` and `otherwise` say how many instructions to skip."""
    return struct.pack("<HBBI", code, then, otherwise, value)


def _refusal(error: int) -> bytes:
    return _operation(_RETURN, _ERRNO | error)


_ALLOWED = _operation(_RETURN, _ALLOW)
