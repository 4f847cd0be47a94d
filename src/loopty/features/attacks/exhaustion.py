"""Attacks that use more than their bounds. All are small, so that one that gets through does no harm."""

from __future__ import annotations

from loopty.domain.launch import Protection
from loopty.features.attacks.attack import BOUNDS, Attack, Threat
from loopty.kit.records import replace

_FORKS = {
    "start too many processes": """
children = []
try:
    while len(children) < HOST["processes"] + 40:
        children.append(os.fork())
        if children[-1] == 0:
            time.sleep(20)
            os._exit(0)
    claim("had %d processes under a bound of %d" % (len(children), HOST["processes"]))
finally:
    for child in children:
        os.kill(child, 9)
""",
    "start too many threads": """
import threading
try:
    for number in range(HOST["processes"] + 40):
        threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
    claim("had %d threads under a bound of %d" % (number, HOST["processes"]))
except RuntimeError as error:
    print("refused:", error)
""",
}

# Each ends with twice its bound, unless it is stopped.
_MEMORY = {
    "spread memory over processes": """
ready, done = os.pipe()
children = []
for _ in range(4):
    children.append(os.fork())
    if children[-1] == 0:
        taken = b"x" * (HOST["memory"] // 2)
        os.write(done, b".")
        time.sleep(60)
for _ in children:
    os.read(ready, 1)
hold()
if all(os.waitpid(child, os.WNOHANG)[0] == 0 for child in children):
    claim("took twice its memory in four processes")
for child in children:
    os.kill(child, 9)
""",
    "hide memory in files of /tmp and /dev/shm": """
# Each smaller than any bound on one file, together more than the memory.
size = HOST["memory"] // 8
paths = [folder + "/" + HOST["mark"] + str(number) for folder in ("/tmp", "/dev/shm") for number in range(8)]
written = []
for path in paths:
    def fill():
        with open(path, "wb") as file:
            written.append(file.write(bytes(size)))
    attempt(fill)
hold()
if sum(written) > HOST["memory"]:
    claim("filled %d bytes of memory with files" % sum(written))
for path in paths:
    attempt(lambda: os.unlink(path))
""",
    "hide memory in memfds": """
import array, socket
# In transit between processes, where no list of descriptors shows them.
ours, theirs = socket.socketpair()
for _ in range(8):
    descriptor = os.memfd_create("hidden")
    os.write(descriptor, bytes(HOST["memory"] // 4))
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])
    os.close(descriptor)
hold()
claim("took twice its memory in memfds")
""",
    "hide memory in System V segments": """
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
for _ in range(8):
    size = HOST["memory"] // 4
    segment = call(29, 194, 0, size, 0o1600)
    place = libc.shmat(segment, None, 0)
    # It vanishes with the last process that has it attached, so that nothing stays on a host without a sandbox.
    libc.shmctl(segment, 0, None)
    ctypes.memset(place, 1, size)
    libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), 4)
hold()
claim("took twice its memory in segments")
""",
    "hide memory in a shared mapping": """
import mmap
# The process no longer accounts for the pages, but they still exist: a shared mapping keeps its pages.
taken = mmap.mmap(-1, 2 * HOST["memory"])
step = 1 << 20
for start in range(0, len(taken), step):
    taken[start : start + step] = b"x" * step
    taken.madvise(mmap.MADV_DONTNEED, start, step)
hold()
claim("took twice its memory in a mapping")
""",
    "hide memory in the buffers of sockets": """
import socket
pairs, sent = [], 0
while sent < 2 * HOST["memory"]:
    pairs.append(socket.socketpair())
    for end in pairs[-1]:
        end.setblocking(False)
        try:
            while True:
                sent += end.send(bytes(1 << 16))
        except BlockingIOError:
            pass
hold()
claim("took twice its memory in sockets")
""",
}

_NAMES = {
    "fill the disk with empty files": """
for number in range(2 * HOST["disk"] // 4096):
    open(OUT + "/empty%d" % number, "x").close()
hold()
claim("made twice as many files as fit")
""",
    "fill the disk with empty directories": """
for number in range(2 * HOST["disk"] // 4096):
    os.mkdir(OUT + "/empty%d" % number)
hold()
claim("made twice as many directories as fit")
""",
}

_DISK = {
    "fill the disk with many files": """
for number in range(16):
    with open(OUT + "/many%d" % number, "wb") as file:
        file.write(os.urandom(HOST["disk"] // 8))
hold()
claim("wrote twice its disk")
""",
    "fill the disk with one file": """
with open(OUT + "/one", "wb") as file:
    file.write(bytes(2 * HOST["disk"]))
claim("wrote one file of twice the size")
""",
    "fill the disk with files that have no name": """
held = []
for number in range(4):
    held.append(open(OUT + "/unnamed", "wb", buffering=0))
    os.unlink(OUT + "/unnamed")
    held[-1].write(os.urandom(HOST["disk"] // 2))
hold()
claim("holds twice its disk in files without a name")
""",
    "fill the disk from a process that hides its files": """
# A process that is not dumpable shows its descriptors neither to other users nor to its own.
PR_SET_DUMPABLE = 4
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
held = []
for number in range(4):
    held.append(open(OUT + "/unnamed", "wb", buffering=0))
    os.unlink(OUT + "/unnamed")
    held[-1].write(os.urandom(HOST["disk"] // 2))
hold()
claim("holds twice its disk in hidden files")
""",
    "fill the disk with files that are only mapped": """
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for number in range(4):
    file = os.open(OUT + "/mapped", os.O_RDWR | os.O_CREAT)
    os.write(file, os.urandom(HOST["disk"] // 2))
    libc.mmap(None, 4096, 1, 1, file, 0)
    os.close(file)
    os.unlink(OUT + "/mapped")
hold()
claim("holds twice its disk in mapped files")
""",
    "fill the disk with files in transit between processes": """
import array, socket
ours, theirs = socket.socketpair()
for number in range(4):
    file = os.open(OUT + "/sent", os.O_RDWR | os.O_CREAT)
    os.write(file, os.urandom(HOST["disk"] // 2))
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    os.close(file)
    os.unlink(OUT + "/sent")
hold()
claim("holds twice its disk in files that were sent")
""",
    "fill the disk in a folder that nobody may read": """
os.mkdir(OUT + "/closed")
directory = os.open(OUT + "/closed", os.O_RDONLY)
for number in range(16):
    file = os.open("file%d" % number, os.O_WRONLY | os.O_CREAT, dir_fd=directory)
    os.write(file, os.urandom(HOST["disk"] // 8))
    os.close(file)
os.chmod(OUT + "/closed", 0)
hold()
claim("wrote twice its disk in a closed folder")
""",
    "fill the disk in folders too deep to walk": """
directory = os.open(OUT, os.O_RDONLY)
for depth in range(300):
    os.mkdir("deep", dir_fd=directory)
    below = os.open("deep", os.O_RDONLY, dir_fd=directory)
    os.close(directory)
    directory = below
for number in range(16):
    file = os.open("file%d" % number, os.O_WRONLY | os.O_CREAT, dir_fd=directory)
    os.write(file, os.urandom(HOST["disk"] // 8))
    os.close(file)
hold()
claim("wrote twice its disk in deep folders")
""",
    "fill /dev and /": """
for folder in ("/dev", "/", "/etc", "/run", "/arena", "/proc", "/usr", "/opt"):
    def fill():
        path = folder + "/loopty-" + HOST["mark"]
        open(path, "xb").write(b"x")
        os.unlink(path)
        claim("wrote to " + folder)
    attempt(fill)
""",
}

_FLOOD = """
for _ in range(8):
    os.write({}, bytes(1 << 20))
"""

ATTACKS = (
    *(
        Attack(name, Threat.FORKS, Protection.FORKS, script, replace(BOUNDS, processes=16))
        for name, script in _FORKS.items()
    ),
    *(
        Attack(name, Threat.MEMORY, Protection.MEMORY, script, replace(BOUNDS, memory_mb=64, disk_mb=40))
        for name, script in _MEMORY.items()
    ),
    *(
        Attack(name, Threat.DISK, Protection.DISK, script, replace(BOUNDS, disk_mb=4))
        for name, script in _DISK.items()
    ),
    *(
        Attack(name, Threat.DISK, Protection.DISK, script, replace(BOUNDS, disk_mb=1))
        for name, script in _NAMES.items()
    ),
    Attack("flood the output", Threat.OUTPUT, None, _FLOOD.format(1)),
    Attack("flood the errors", Threat.OUTPUT, None, _FLOOD.format(2)),
)
