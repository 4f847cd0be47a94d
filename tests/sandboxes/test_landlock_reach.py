"""What a trial under Landlock can reach: files, sockets, other processes, system calls."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from loopty.domain.launch import Mount
from loopty.sandboxes.landlock import Landlock
from loopty.sandboxes.landlock_supervisor import landlock_domain
from loopty.sandboxes.trial_user import trial_owner

try:
    LANDLOCK = landlock_domain.version()
except OSError:
    LANDLOCK = 0
pytestmark = pytest.mark.skipif(LANDLOCK < landlock_domain.SCOPES_VERSION, reason="no Landlock, or an old one")

PATH = "/usr/bin:/bin"


@pytest.fixture
def place(place_of):
    return place_of(Landlock())


@pytest.fixture
def outside():
    """A directory of the trial's own user that it is not shown: only the sandbox is in the way."""
    made = Path("/var/tmp") / f"loopty-test-{os.getpid()}"
    made.mkdir()
    (made / "file").write_text("secret")
    for path in (made, made / "file"):
        path.chmod(0o777)
        os.chown(path, *(trial_owner() or (os.getuid(), os.getgid())))
    yield made
    subprocess.run(["rm", "-rf", made], check=True)


@pytest.fixture
def bystander():
    """A process of the trial's user."""
    identity = (
        {} if (owner := trial_owner()) is None else {"user": owner[0], "group": owner[1], "extra_groups": []}
    )
    with subprocess.Popen(["/bin/sleep", "1000"], **identity) as process:
        yield process.pid
        process.kill()


async def test_the_tree_is_read_only_and_the_edit_directory_is_not(place):
    (place.tree / "file").write_text("kept")
    script = (
        "echo no > file; echo no > new; rm -f file; mv file other; ln file hard; echo yes > $EDIT/new; cat file"
    )
    ran = await place.shell(script, env={"EDIT": "/edit", "PATH": PATH})
    assert ran.out == "kept"
    assert [path.name for path in place.tree.iterdir()] == ["file"]
    assert (place.tree / "file").read_text() == "kept"
    assert (place.edit / "new").read_text() == "yes\n"


async def test_mounts_inside_a_mount_are_laid_out_and_the_originals_are_unharmed(place):
    (place.tree / "part").mkdir()
    (place.tree / "part" / "old").write_text("covered")
    (place.tree / "file").write_text("kept")
    other = place.root / "other"
    other.mkdir(mode=0o755)
    (other / "new").write_text("covering")
    ran = await place.shell(
        "cat file part/*; echo no > file; echo no > part/new; chmod 777 file part/new; touch $BUILD/x",
        env={"BUILD": "/tree/build", "PATH": PATH},
        mounts=(
            Mount(place.tree, "/tree"),
            Mount(other, "/tree/part"),
            Mount(place.edit, "/edit", writable=True),
        ),
        scratch=("/tree/build",),
    )
    assert ran.out.startswith("keptcovering")
    assert ((place.tree / "file").read_text(), (other / "new").read_text()) == ("kept", "covering")
    assert (place.tree / "file").stat().st_mode & 0o777 != 0o777
    assert ran.exit.code == 0


async def test_what_the_host_adds_to_a_mount_is_seen(place):
    def add() -> None:
        while not (place.edit / "ready").exists():
            time.sleep(0.01)
        (place.tree / "stop").write_text("seen")

    script = 'echo > "$EDIT/ready"; until [ -e stop ]; do sleep 0.01; done; cat stop'
    env = {"EDIT": "/edit", "PATH": PATH}
    ran, _ = await asyncio.gather(place.shell(script, env=env), asyncio.to_thread(add))
    assert ran.out == "seen"


async def test_nothing_outside_can_be_read_or_listed(place, outside):
    ran = await place.shell(f"cat {outside}/file; ls {outside} /root /home /var /run /proc /sys; cat /etc/shadow")
    assert ran.out == ""


async def test_a_link_out_of_the_view_leads_nowhere(place, outside):
    (place.tree / "link").symlink_to(outside)
    ran = await place.shell("cat link/file; cd /proc/self/root/var/tmp && ls; cat /proc/self/cwd/link/file")
    assert ran.out == ""


CHANGES = """
import ctypes, json, os, sys
file, directory = sys.argv[1] + "/file", sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)

def tried(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno
    return 0

read_only = os.open(sys.argv[2] + "/held", os.O_RDONLY)
bare = os.open(file, os.O_PATH)
print(json.dumps({
    "write": tried(lambda: open(file, "w")),
    "append": tried(lambda: open(file, "a")),
    "truncate": tried(lambda: os.truncate(file, 0)),
    "create": tried(lambda: open(directory + "/new", "w")),
    "mkdir": tried(lambda: os.mkdir(directory + "/made")),
    "unlink": tried(lambda: os.unlink(file)),
    "rename": tried(lambda: os.rename(file, directory + "/moved")),
    "take": tried(lambda: os.rename(file, "taken")),
    "link": tried(lambda: os.link(file, "linked")),
    "chmod": tried(lambda: os.chmod(file, 0o600)),
    "chmod of a descriptor": tried(lambda: os.chmod(read_only, 0o600)),
    "chmod by /proc": tried(lambda: os.chmod(f"/proc/self/fd/{bare}", 0o600)),
    "chmod by a link": tried(lambda: (os.symlink(file, "there"), os.chmod("there", 0o600))),
    "utime": tried(lambda: os.utime(file, (1, 1))),
    "utime of a descriptor": tried(lambda: os.utime(read_only, (1, 1))),
    "chown": tried(lambda: os.chown(file, -1, -1)),
    "setxattr": tried(lambda: os.setxattr(file, "user.x", b"x")),
}))
"""


async def test_nothing_outside_can_be_changed_in_any_way(place, outside):
    (place.tree / "held").write_text("held")
    os.chown(place.tree / "held", *(trial_owner() or (os.getuid(), os.getgid())))
    before = [(path.stat().st_mode, path.stat().st_mtime) for path in (outside, outside / "file")]
    launch = place.launch(*place.interpreter, CHANGES, str(outside), "/tree")
    ran = await place.run(place.launch(*launch.argv, env={"PATH": PATH}, cwd="/edit"))
    results = json.loads(ran.out)
    assert [name for name, error in results.items() if error == 0] == []
    assert [(path.stat().st_mode, path.stat().st_mtime) for path in (outside, outside / "file")] == before
    assert (place.tree / "held").stat().st_mtime > 1
    assert (outside / "file").read_text() == "secret"


async def test_modes_and_times_of_its_own_files_can_be_changed(place):
    script = """
import os, stat
os.mkdir("directory")
with open("directory/file", "w") as file:
    os.fchmod(file.fileno(), 0o640)
    print(oct(os.stat("directory/file").st_mode & 0o777))
os.chmod("directory/file", 0o755)
os.utime("directory/file", (5, 7))
os.symlink("file", "directory/link")
os.utime("directory/link", (3, 3), follow_symlinks=False)
held = os.open("directory", os.O_RDONLY)
os.chmod("file", 0o711, dir_fd=held)
os.chmod(f"/proc/self/fd/{held}", 0o700)
status = os.stat("directory/file")
print(oct(status.st_mode & 0o777), status.st_atime, status.st_mtime, oct(os.stat("directory").st_mode & 0o777))
print(os.lstat("directory/link").st_mtime)
os.utime("directory/file")
print(os.stat("directory/file").st_mtime > 1e9)
for call in (lambda: os.chmod("absent", 0), lambda: os.chmod(99, 0)):
    try:
        call()
    except OSError as error:
        print(error.errno)
"""
    ran = await place.python(script, cwd="/edit")
    expected = ["0o640", "0o711 5.0 7.0 0o700", "3.0", "True", str(errno.ENOENT), str(errno.EBADF)]
    assert ran.out.splitlines() == expected, ran.err


async def test_a_home_a_temporary_directory_and_devices_can_be_used(place):
    script = """
set -e
echo x > "$HOME/file"; echo x > "$TMPDIR/file"; t=$(mktemp); mv "$t" "$HOME/moved"; ln "$HOME/moved" "$HOME/hard"
echo x > /dev/null; head -c 4 /dev/zero > /dev/null; head -c 4 /dev/urandom > /dev/null
read line < /proc/self/status; cat < /dev/null; echo done
"""
    ran = await place.shell(script)
    assert ran.out == "done\n", ran.err
    assert ran.exit.code == 0


async def test_a_program_can_be_built_and_run(place):
    (place.tree / "main.c").write_text('#include <stdio.h>\nint main(void) { return puts("built") < 0; }\n')
    ran = await place.shell(
        "cc -o $BUILD/main main.c && $BUILD/main", env={"BUILD": "/build", "PATH": PATH}, scratch=("/build",)
    )
    if "not found" in ran.err:
        pytest.skip("there is no compiler")
    assert ran.out == "built\n", ran.err


async def test_no_variable_of_the_host_reaches_the_trial(place, monkeypatch):
    monkeypatch.setenv("SECRET", "leaked")
    ran = await place.python("import os; print(*sorted(os.environ))", env={"ASKED": "for"})
    assert set(ran.out.split()) - {"LC_CTYPE"} == {"ASKED", "HOME", "TMPDIR"}


async def test_only_the_standard_descriptors_are_inherited(place):
    ran = await place.python("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")
    assert json.loads(ran.out) == [0, 1, 2, 3]


CONNECTIONS = """
import errno, json, socket, sys

def tried(family, address, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(family, kind) as made:
            made.settimeout(5)
            if kind == socket.SOCK_STREAM:
                made.connect(address)
            else:
                made.sendto(b"x", address)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "connected"

path, abstract, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
print(json.dumps({
    "tcp": tried(socket.AF_INET, ("127.0.0.1", port)),
    "udp": tried(socket.AF_INET, ("127.0.0.1", port), socket.SOCK_DGRAM),
    "tcp6": tried(socket.AF_INET6, ("::1", port)),
    "path": tried(socket.AF_UNIX, path),
    "abstract": tried(socket.AF_UNIX, "\\0" + abstract),
    "datagram": tried(socket.AF_UNIX, path, socket.SOCK_DGRAM),
    "vsock": tried(socket.AF_VSOCK, (2, port)),
}))
"""


@pytest.fixture
def listening(outside):
    """A port, a path and an abstract name of the host that accept anybody."""
    name = f"loopty-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as by_path,
        socket.socket(socket.AF_UNIX) as by_name,
    ):
        by_path.bind(str(outside / "socket"))
        (outside / "socket").chmod(0o777)
        by_name.bind(f"\0{name}")
        by_path.listen()
        by_name.listen()
        yield (str(outside / "socket"), name, str(server.getsockname()[1]))


async def test_no_socket_of_the_host_can_be_reached(place, listening):
    ran = await place.run(place.launch(*place.interpreter, CONNECTIONS, *listening))
    assert json.loads(ran.out) == {
        "tcp": "EAFNOSUPPORT",
        "udp": "EAFNOSUPPORT",
        "tcp6": "EAFNOSUPPORT",
        "path": "EACCES",
        "abstract": "ECONNREFUSED",
        "datagram": "EPROTONOSUPPORT",
        "vsock": "EAFNOSUPPORT",
    }


async def test_a_launch_that_asks_for_the_network_has_it_but_no_other_socket(place, listening):
    ran = await place.run(place.launch(*place.interpreter, CONNECTIONS, *listening, network=True))
    results = json.loads(ran.out)
    assert (results["tcp"], results["path"], results["abstract"]) == ("connected", "EACCES", "ECONNREFUSED")


async def test_a_socket_that_it_is_shown_can_be_reached(place, outside):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(outside / "socket"))
        (outside / "socket").chmod(0o777)
        server.listen()
        script = (
            "import os, socket; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['WHERE']); print('in')"
        )
        for mount in (Mount(outside, "/door"), Mount(outside / "socket", "/door/socket")):
            launch = place.launch(*place.interpreter, script, env={"WHERE": "/door/socket"})
            ran = await place.run(place.launch(*launch.argv, env=launch.env, mounts=(*launch.mounts, mount)))
            assert ran.out == "in\n", ran.err


async def test_sockets_between_its_own_processes_work(place):
    script = """
import os, socket, threading
server = socket.socket(socket.AF_UNIX)
os.chdir(os.environ["HOME"])
server.bind("own")
server.listen(1)
if os.fork() == 0:
    client = socket.socket(socket.AF_UNIX)
    client.connect("own")
    client.sendall(b"hello")
    os._exit(0)
print(server.accept()[0].recv(10))
one, other = socket.socketpair()
one.sendall(b"pair")
print(other.recv(10))
"""
    ran = await place.python(script)
    assert ran.out == "b'hello'\nb'pair'\n", ran.err


OTHERS = """
import ctypes, json, os, resource, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])

def tried(attempt):
    try:
        result = attempt()
    except OSError as error:
        return error.errno
    return ctypes.get_errno() if result == -1 else 0

def read(name):
    with open(f"/proc/{pid}/{name}", "rb") as file:
        file.read()

print(json.dumps({
    "signal": tried(lambda: os.kill(pid, signal.SIGTERM)),
    "signal to the parent": tried(lambda: os.kill(os.getppid(), 0)),
    "pidfd": tried(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGTERM)),
    "limits": tried(lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))),
    "priority": tried(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)),
    "priority of the user": tried(lambda: os.setpriority(os.PRIO_USER, 0, 19)),
    "affinity": tried(lambda: os.sched_setaffinity(pid, {0})),
    "ptrace": tried(lambda: libc.ptrace(16, pid, 0, 0)),
    "memory": tried(lambda: read("mem")),
    "environment": tried(lambda: read("environ")),
    "command line": tried(lambda: read("cmdline")),
    "status": tried(lambda: read("status")),
    "files": tried(lambda: os.listdir(f"/proc/{pid}/fd")),
    "root": tried(lambda: os.listdir(f"/proc/{pid}/root/")),
    "processes": tried(lambda: os.listdir("/proc")),
}))
"""


async def test_other_processes_of_the_same_user_are_out_of_reach(place, bystander):
    ran = await place.run(place.launch(*place.interpreter, OTHERS, str(bystander)))
    assert [name for name, error in json.loads(ran.out).items() if error == 0] == []
    os.kill(bystander, 0)


async def test_its_own_processes_can_be_signalled(place):
    ran = await place.shell("sleep 1000 & kill -9 $!; wait $!; echo $?")
    assert ran.out == "137\n"


CALLS = """
import ctypes, json, os, platform
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"

def tried(result):
    return ctypes.get_errno() if result == -1 else 0

def call(number, *arguments):
    return tried(libc.syscall(*map(ctypes.c_long, (number, *arguments))))

print(json.dumps({
    "ptrace": tried(libc.ptrace(0, 0, 0, 0)),
    "unshare": tried(libc.unshare(0x10000000)),
    "mount": tried(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "chroot": tried(libc.chroot(b"/")),
    "bpf": call(321 if x86 else 280, 0, 0, 0),
    "shmat": call(30 if x86 else 196, 0, 0, 0),
    "inotify": tried(libc.inotify_add_watch(libc.inotify_init(), b"/", 0x2)),
    "clone3": call(435, 0, 0),
    "memfd": tried(libc.memfd_create(b"x", 0)),
    "setflags": tried(libc.ioctl(os.open("/usr", os.O_RDONLY), 0x40086602, ctypes.byref(ctypes.c_long(0)))),
}))
"""


async def test_calls_that_no_trial_needs_are_refused(place):
    ran = await place.python(CALLS)
    results = json.loads(ran.out)
    assert {results.pop(name) for name in ("ptrace", "unshare", "mount", "chroot", "bpf")} == {errno.EPERM}
    assert results.pop("setflags") == errno.ENOTTY
    assert set(results.values()) == {errno.ENOSYS}


@pytest.mark.skipif(trial_owner() is None, reason="only root has another user for its trials")
async def test_a_trial_is_never_root(place):
    await place.shell("touch $EDIT/mine", env={"EDIT": "/edit", "PATH": PATH})
    assert (place.edit / "mine").stat().st_uid == trial_owner()[0]
