"""Attacks by system calls and devices that no trial needs."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from loopty.domain.launch import Protection
from loopty.features.attacks.attack import Attack, Threat, no_obstacle

_TRIES, _PAUSE_SECONDS = 20, 0.02
"""The kernel drops a page only when it is on disk and nobody looks at it."""
_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger")


def _obstacle_of_setting(switch: str, off: str) -> Callable[[], str]:
    """Make the obstacle of attacks that a kernel setting forbids to everyone, with or without a sandbox."""

    def reason() -> str:
        path = Path("/proc/sys", switch)
        return f"{switch} is {off} here" if path.exists() and path.read_text().strip() == off else ""

    return reason


def _not_root() -> str:
    return "" if os.geteuid() == 0 else "loopty is not root here"


def _no_terminal() -> str:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return "loopty has no terminal here"
    return ""


def _no_files_on_disk() -> str:
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        file.flush()
        with contextlib.suppress(OSError):
            for _ in range(_TRIES):
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                try:
                    os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
                except BlockingIOError:
                    return ""
                time.sleep(_PAUSE_SECONDS)
    return "the temporary folder is in memory, or its file system does not say what is"


def _forgetting(advise: str) -> str:
    """Write a script that has the kernel drop a file that is only shown: the next trial would read it slower."""
    return f"""
import mmap
file = os.open(TREE + "/evaluate.py", os.O_RDONLY)
for _ in range({_TRIES}):
    os.read(file, 1)
    os.fsync(file)
    {advise}
    try:
        os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        claim("a file was dropped from memory")
        break
    time.sleep({_PAUSE_SECONDS})
"""


def _no_program_of_root() -> str:
    return "" if _programs_of_root() else "there is no set-uid program here"


def _programs_of_root() -> list[str]:
    paths = (Path("/usr/bin", name) for name in ("su", "passwd", "newgrp", "chsh", "mount"))
    return [str(path) for path in paths if path.exists() and path.stat().st_mode & 0o4000]


_CALLS: dict[str, tuple[str, Callable[[], str]]] = {
    "make a user namespace by unshare": ("call(272, 97, 0x10000000)", no_obstacle),
    "make a user namespace by clone": (
        "call(56, 220, 0x10000000 | 17, 0, 0, 0, 0) or os._exit(0)",
        no_obstacle,
    ),
    "make a user namespace by clone3": (
        """
import struct
arguments = ctypes.create_string_buffer(struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0))
call(435, 435, arguments, 64) or os._exit(0)
""",
        no_obstacle,
    ),
    "mount a file system": (
        """
attempt(lambda: call(272, 97, 0x10000000 | 0x00020000))
call(165, 40, b"none", TREE.encode(), b"tmpfs", 0, None)
""",
        no_obstacle,
    ),
    "open a file system for mounting": (
        "attempt(lambda: call(272, 97, 0x10000000 | 0x00020000))\ncall(430, 430, b'tmpfs', 0)",
        no_obstacle,
    ),
    "ask to be traced": ("call(101, 117, 0, 0, 0, 0)", no_obstacle),
    "read memory by process_vm_readv": (
        """
import struct
found = ctypes.create_string_buffer(4)
secret = ctypes.create_string_buffer(b"deep")
span = lambda place: ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(place), 4))
call(310, 270, os.getpid(), span(found), 1, span(secret), 1, 0)
""",
        no_obstacle,
    ),
    "type into a terminal": (
        """
import fcntl, pty
ours, theirs = pty.openpty()
os.setsid() if os.getsid(0) != os.getpid() else None
fcntl.ioctl(theirs, 0x540E, 0)
fcntl.ioctl(theirs, 0x5412, b"x")
""",
        _obstacle_of_setting("dev/tty/legacy_tiocsti", "0"),
    ),
    "open an io_uring": (
        "call(425, 425, 1, ctypes.create_string_buffer(256))",
        _obstacle_of_setting("kernel/io_uring_disabled", "2"),
    ),
    "use the kernel's keyrings": ("call(250, 219, 0, -3, 1)", no_obstacle),
    "handle page faults by userfaultfd": ("call(323, 282, 1)", no_obstacle),
    "name a file by its handle": (
        """
handle = ctypes.create_string_buffer((128).to_bytes(4, sys.byteorder) + bytes(140))
call(303, 264, -100, TREE.encode(), handle, ctypes.create_string_buffer(4), 0)
""",
        no_obstacle,
    ),
    "reach the terminal of loopty": ("os.open('/dev/tty', os.O_RDWR)", _no_terminal),
}

ATTACKS = (
    *(
        Attack(name, Threat.CALLS, Protection.CALLS, f"{script}\nclaim('the call succeeded')", obstacle=obstacle)
        for name, (script, obstacle) in _CALLS.items()
    ),
    Attack(
        "drop a file from memory by posix_fadvise",
        Threat.CALLS,
        Protection.CALLS,
        _forgetting("os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)"),
        obstacle=_no_files_on_disk,
    ),
    Attack(
        "drop a file from memory by madvise",
        Threat.CALLS,
        Protection.CALLS,
        _forgetting("pages = mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ); pages[0]; pages.madvise(21)"),
        obstacle=_no_files_on_disk,
    ),
    Attack(
        "make a device",
        Threat.CALLS,
        Protection.CALLS,
        """
import stat
for number, kind in enumerate((stat.S_IFCHR, stat.S_IFBLK)):
    attempt(lambda: os.mknod(OUT + "/device%d" % number, kind | 0o666, os.makedev(1, 3)))
""",
    ),
    Attack(
        "leave a program that makes others its owner",
        Threat.CALLS,
        Protection.CALLS,
        """
path = OUT + "/program"
attempt(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755)))
attempt(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755)))
attempt(lambda: os.chmod(path, 0o6755))
if os.stat(path).st_mode & 0o6000:
    os.remove(path)
    claim("others would become the owner of the program")
""",
    ),
    Attack(
        "start a program with the rights of root",
        Threat.CALLS,
        Protection.CALLS,
        f"""
import fcntl, subprocess
# A full pipe blocks the program, which only prints its help, so that its user can be read.
reading, writing = os.pipe()
os.set_blocking(writing, False)
try:
    while True:
        os.write(writing, bytes(4096))
except BlockingIOError:
    os.set_blocking(writing, True)
for program in {_programs_of_root()}:
    process = subprocess.Popen([program, "--help"], stdout=writing, stderr=writing)
    time.sleep(0.3)
    with open("/proc/%d/status" % process.pid) as status:
        identities = [line.split() for line in status if line.startswith("Uid:")][0]
    process.kill()
    if identities[1] != identities[2]:
        claim("started " + program + " as another user")
""",
        obstacle=_no_program_of_root,
    ),
    Attack(
        "open the kernel's settings for writing",
        Threat.KERNEL,
        Protection.WRITE,
        f"""
for path in {_SETTINGS}:
    # Opened but never written.
    if attempt(lambda: os.close(os.open(path, os.O_WRONLY))):
        claim("may write " + path)
""",
    ),
    Attack(
        "write files as root",
        Threat.KERNEL,
        Protection.WRITE,
        "attempt(lambda: os.setuid(0))\nopen(OUT + '/mine', 'w')",
        obstacle=_not_root,
    ),
)
