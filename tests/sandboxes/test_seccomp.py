"""System calls that are refused: in a real sandbox, and by the filter for each machine."""

from __future__ import annotations

import errno
import json
import struct

import pytest

from loopty.sandboxes import seccomp
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.namespaces.sandbox import Namespaces

ATTEMPTS = """
import ctypes, errno, fcntl, json, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
buffer = ctypes.create_string_buffer(256)

def error_of(result):
    return ctypes.get_errno() if result == -1 else 0

def call(number, *arguments):
    return error_of(libc.syscall(*map(ctypes.c_long, (number, *arguments))))

def error_in(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno
    return 0

def clone():
    child = libc.syscall(*map(ctypes.c_long, (56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0)))
    if child == 0:
        os._exit(0)
    return error_of(child)

print(json.dumps({
    "ptrace": error_of(libc.ptrace(0, 0, 0, 0)),
    "process_vm_readv": error_of(libc.process_vm_readv(os.getpid(), None, 0, None, 0, 0)),
    "keyctl": call(250 if x86 else 219, 0, -3, 1),
    "unshare": error_of(libc.unshare(0x10000000)),
    "mount": error_of(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "clone": clone(),
    "tiocsti": error_in(lambda: fcntl.ioctl(0, 0x5412, b"x")),
    "clone3": call(435, 0, 0),
    "io_uring": call(425, 1, ctypes.addressof(buffer)),
    "memfd": error_in(lambda: os.memfd_create("x")),
    "shmget": error_of(libc.shmget(0, 4096, 0o1600)),
    "vsock": error_in(lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)),
    "packet": error_in(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "unix": error_in(lambda: socket.socket(socket.AF_UNIX)),
    "inet": error_in(lambda: socket.socket(socket.AF_INET)),
}))
"""


async def test_calls_that_no_trial_needs_are_refused(harness):
    result = await harness.python(ATTEMPTS)
    forbidden = dict.fromkeys(
        ["ptrace", "process_vm_readv", "keyctl", "unshare", "mount", "clone", "tiocsti"], errno.EPERM
    )
    absent = dict.fromkeys(["clone3", "io_uring", "memfd", "shmget"], errno.ENOSYS)
    families = dict.fromkeys(["vsock", "packet"], errno.EAFNOSUPPORT)
    allowed = dict.fromkeys(["unix", "inet"], 0)
    assert json.loads(result.out) == {**forbidden, **absent, **families, **allowed}


async def test_threads_processes_and_shared_memory_still_work(harness):
    script = """
import multiprocessing, threading
from multiprocessing.shared_memory import SharedMemory

def work(name):
    shared = SharedMemory(name)
    shared.buf[0] = 7
    shared.close()

if __name__ == "__main__":
    shared = SharedMemory(create=True, size=4096)
    for kind in (multiprocessing.get_context("fork").Process, threading.Thread):
        worker = kind(target=work, args=(shared.name,))
        worker.start()
        worker.join()
    print(shared.buf[0])
    shared.close()
    shared.unlink()
"""
    result = await harness.python(script)
    assert result.out == "7\n"


SET_ID_ATTEMPTS = """
import ctypes, json, os, platform, stat
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
os.chdir(os.environ["TMPDIR"]) if "TMPDIR" in os.environ else os.chdir("/tmp")
open("mine", "w").close()
os.mkdir("folder")
descriptor = os.open("mine", os.O_RDONLY)
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
attempts = {
    "chmod": lambda: libc.chmod(b"mine", 0o4755),
    "chmod of a folder": lambda: libc.chmod(b"folder", 0o2755),
    "fchmod": lambda: libc.fchmod(descriptor, 0o2755),
    "fchmodat": lambda: libc.fchmodat(-100, b"mine", 0o6755, 0),
    "fchmodat2": lambda: libc.syscall(452, -100, b"mine", 0o4755, 0),
    "open": lambda: libc.open(b"made", os.O_CREAT | os.O_WRONLY, 0o4755),
    "the call open": lambda: libc.syscall(2, b"made2", os.O_CREAT | os.O_WRONLY, 0o4755) if x86 else -1,
    "creat": lambda: libc.creat(b"made3", 0o4755),
    "openat2": lambda: libc.syscall(437, -100, b"made4", how, 24),
    "without a name": lambda: libc.open(b".", os.O_TMPFILE | os.O_WRONLY, 0o4755),
    "mknod": lambda: libc.mknod(b"made5", stat.S_IFREG | 0o4755, 0),
}
for attempt in attempts.values():
    attempt()
done = [name for name in os.listdir(".") if os.stat(name).st_mode & 0o6000]
os.chmod("mine", 0o1640)
os.open("mine", os.O_RDONLY, 0o4755)
print(json.dumps({"done": done, "mode": oct(os.stat("mine").st_mode)}))
"""


@pytest.mark.parametrize("back_end", [Namespaces, Bubblewrap, Landlock])
async def test_no_file_of_a_trial_makes_another_user_its_owner(harness_of, back_end):
    result = await harness_of(back_end()).python(SET_ID_ATTEMPTS)
    assert json.loads(result.out or result.err)["done"] == []
    assert json.loads(result.out)["mode"] == "0o101640", "other modes can be set"


X86_64, AARCH64, I386 = 0xC000003E, 0xC00000B7, 0x40000003
ALLOW, KILL = 0x7FFF0000, 0x80000000


def errno_decision(error: int) -> int:
    return 0x00050000 | error


@pytest.mark.parametrize(
    ("machine", "architecture", "number", "argument", "decision"),
    [
        ("x86_64", X86_64, 0, 0, ALLOW),
        ("x86_64", X86_64, 101, 0, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 319, 0, errno_decision(errno.ENOSYS)),
        ("x86_64", X86_64, 56, 17, ALLOW),
        ("x86_64", X86_64, 56, 0x10000011, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 41, 1, ALLOW),
        ("x86_64", X86_64, 41, 16, ALLOW),
        ("x86_64", X86_64, 41, 40, errno_decision(errno.EAFNOSUPPORT)),
        ("x86_64", X86_64, 53, 40, errno_decision(errno.EAFNOSUPPORT)),
        ("x86_64", X86_64, 16, 0x5412, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 16, 0x1_0000_5412, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 16, 0x5413, ALLOW),
        ("x86_64", X86_64, 90, 0o4755, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 90, 0o1755, ALLOW),
        ("x86_64", X86_64, 133, 0o2644, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 2, 0o4000, ALLOW),
        ("x86_64", X86_64, 2, 0o4100, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 257, 0o20004000, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 437, 0, errno_decision(errno.ENOSYS)),
        ("aarch64", AARCH64, 53, 0o4755, errno_decision(errno.EPERM)),
        ("aarch64", AARCH64, 56, 0o2100, errno_decision(errno.EPERM)),
        ("x86_64", X86_64, 0x40000000 + 521, 0, KILL),
        ("x86_64", I386, 26, 0, KILL),
        ("aarch64", AARCH64, 63, 0, ALLOW),
        ("aarch64", AARCH64, 117, 0, errno_decision(errno.EPERM)),
        ("aarch64", AARCH64, 198, 40, errno_decision(errno.EAFNOSUPPORT)),
        ("aarch64", AARCH64, 198, 2, ALLOW),
        ("aarch64", AARCH64, 220, 0x10000011, errno_decision(errno.EPERM)),
        ("aarch64", 0x40000028, 26, 0, KILL),
    ],
)
def test_the_filter_decides_each_call(machine, architecture, number, argument, decision):
    assert decision_of(seccomp.program(machine), architecture, number, *[argument] * 6) == decision


TOKEN = 0x1234_5678_9ABC_DEF0
NEW_USER = 0x10000000


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("other", [0, TOKEN ^ 1, TOKEN ^ 1 << 63])
def test_only_warm_processes_make_user_namespaces_and_only_with_the_token(machine, other):
    architecture = {"x86_64": X86_64, "aarch64": AARCH64}[machine]
    clone = seccomp._CLONE[["x86_64", "aarch64"].index(machine)]
    refused = errno_decision(errno.EPERM)
    for nests, decisions in ((True, [ALLOW, refused]), (False, [refused, refused])):
        program = seccomp.program(machine, nests=nests, token=TOKEN)
        call = (program, architecture, clone, NEW_USER | 17, 0, 0, 0, 0)
        assert [decision_of(*call, last) for last in (TOKEN, other)] == decisions
        assert decision_of(program, architecture, clone, 17, 0, 0, 0, 0, other) == ALLOW


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("other", [0, 1, TOKEN ^ 1, TOKEN ^ 1 << 63, TOKEN & 0xFFFFFFFF, TOKEN >> 32 << 32])
def test_only_calls_with_the_token_make_namespaces_and_mounts(machine, other):
    program = seccomp.program(machine, token=TOKEN)
    architecture = {"x86_64": X86_64, "aarch64": AARCH64}[machine]
    column = ["x86_64", "aarch64"].index(machine)
    for name, numbers in seccomp._FORBIDDEN.items():
        call = (program, architecture, numbers[column], 0, 0, 0, 0, 0)
        decisions = [decision_of(*call, last) for last in (TOKEN, other)]
        with_token = ALLOW if name in seccomp._NESTING else errno_decision(errno.EPERM)
        assert decisions == [with_token, errno_decision(errno.EPERM)], name
    for number in range(600):
        if number not in {numbers[column] for numbers in seccomp._FORBIDDEN.values()}:
            plain = decision_of(seccomp.program(machine), architecture, number)
            assert decision_of(program, architecture, number) == plain, number


@pytest.mark.parametrize(("machine", "fadvise", "madvise"), [("x86_64", 221, 28), ("aarch64", 223, 233)])
def test_advice_to_drop_what_is_in_memory_succeeds_and_does_nothing(machine, fadvise, madvise):
    architecture = {"x86_64": X86_64, "aarch64": AARCH64}[machine]
    for program in (seccomp.program(machine), seccomp.notify_filter(machine, network=False).program):

        def ignored(number, argument, program=program):
            calls = {value: [*[4] * argument, value] for value in range(30)}
            found = {value: decision_of(program, architecture, number, *call) for value, call in calls.items()}
            assert set(found.values()) == {ALLOW, errno_decision(0)}
            return [value for value, decision in found.items() if decision != ALLOW]

        assert (ignored(fadvise, 3), ignored(madvise, 2)) == ([4], [20, 21])


ASK = 0x7FC00000


@pytest.mark.parametrize(
    ("machine", "number", "arguments", "network", "decision"),
    [
        ("x86_64", 0, (), False, ALLOW),
        ("x86_64", 101, (), False, errno_decision(errno.EPERM)),
        ("x86_64", 92, (), False, errno_decision(errno.EPERM)),
        ("x86_64", 188, (), False, errno_decision(errno.EOPNOTSUPP)),
        ("x86_64", 30, (), False, errno_decision(errno.ENOSYS)),
        ("x86_64", 90, (), False, ASK),
        ("x86_64", 57, (), False, ASK),
        ("x86_64", 56, (17,), False, ASK),
        ("x86_64", 56, (0x10000011,), False, errno_decision(errno.EPERM)),
        ("x86_64", 302, (0,), False, ALLOW),
        ("x86_64", 302, (7,), False, errno_decision(errno.EPERM)),
        ("x86_64", 141, (0, 0), False, ALLOW),
        ("x86_64", 141, (2, 0), False, errno_decision(errno.EPERM)),
        ("x86_64", 141, (0, 7), False, errno_decision(errno.EPERM)),
        ("x86_64", 16, (3, 0x5412), False, errno_decision(errno.EPERM)),
        ("x86_64", 16, (3, 0x40086602), False, errno_decision(errno.ENOTTY)),
        ("x86_64", 16, (3, 0x541B), False, ALLOW),
        ("x86_64", 41, (1, 1), False, ALLOW),
        ("x86_64", 41, (1, 0x80805), False, ALLOW),
        ("x86_64", 41, (1, 2), False, errno_decision(errno.EPROTONOSUPPORT)),
        ("x86_64", 53, (1, 2), False, errno_decision(errno.EPROTONOSUPPORT)),
        ("x86_64", 41, (2, 1), False, errno_decision(errno.EAFNOSUPPORT)),
        ("x86_64", 41, (2, 2), True, ALLOW),
        ("x86_64", 41, (40, 1), True, errno_decision(errno.EAFNOSUPPORT)),
        ("aarch64", 52, (), False, ASK),
        ("aarch64", 57, (), False, ALLOW),
        ("aarch64", 203, (), False, ASK),
        ("aarch64", 198, (10, 1), False, errno_decision(errno.EAFNOSUPPORT)),
        ("aarch64", 198, (10, 1), True, ALLOW),
    ],
)
def test_the_filter_without_namespaces_decides_each_call(machine, number, arguments, network, decision):
    architecture = {"x86_64": X86_64, "aarch64": AARCH64}[machine]
    program = seccomp.notify_filter(machine, network=network).program
    assert decision_of(program, architecture, number, *arguments) == decision


def test_every_call_that_notifies_the_listener_has_its_name():
    assert set(seccomp.notify_filter("aarch64", network=False).notify_calls.values()) == {
        "clone",
        "connect",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "utimensat",
    }


def test_a_machine_without_call_numbers_has_no_filter():
    assert seccomp.program("pdp11") is None
    assert seccomp.notify_filter("pdp11", network=False) is None


def decision_of(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """The decision of a classic BPF program, as the kernel would run it; missing arguments are 0."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    instructions = list(struct.iter_unpack("<HBBI", program))
    position = register = second = 0
    memory = {}
    while True:
        code, then, otherwise, value = instructions[position]
        position += 1
        if code == 0x20:
            (register,) = struct.unpack_from("<I", data, value)
        elif code == 0x02:
            memory[value] = register
        elif code == 0x61:
            second = memory[value]
        elif code == 0x4C:
            register |= second
        elif code == 0xA4:
            register ^= value
        elif code == 0x05:
            position += value
        elif code == 0x54:
            register &= value
        elif code == 0x15:
            position += then if register == value else otherwise
        elif code == 0x35:
            position += then if register >= value else otherwise
        elif code == 0x06:
            return value
