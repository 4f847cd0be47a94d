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
from loopty.kit.process import trial_owner
from loopty.sandboxes.landlock import order
from loopty.sandboxes.landlock.sandbox import Landlock

try:
    LANDLOCK = order.version()
except OSError:
    LANDLOCK = 0
pytestmark = pytest.mark.skipif(LANDLOCK < order.SCOPES_VERSION, reason="no Landlock, or an old one")

PATH = "/usr/bin:/bin"


@pytest.fixture
def harness(harness_of):
    return harness_of(Landlock())


@pytest.fixture
def outside():
    """A directory of the trial's own user that the trial does not see: only the sandbox protects it."""
    folder = Path("/var/tmp") / f"loopty-test-{os.getpid()}"
    folder.mkdir()
    (folder / "file").write_text("secret")
    for path in (folder, folder / "file"):
        path.chmod(0o777)
        os.chown(path, *(trial_owner() or (os.getuid(), os.getgid())))
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def bystander():
    """Another process of the trial's user."""
    identity = (
        {} if (owner := trial_owner()) is None else {"user": owner[0], "group": owner[1], "extra_groups": []}
    )
    with subprocess.Popen(["/bin/sleep", "1000"], **identity) as process:
        yield process.pid
        process.kill()


async def test_the_tree_is_read_only_and_the_edit_directory_is_not(harness):
    (harness.tree / "file").write_text("kept")
    script = (
        "echo no > file; echo no > new; rm -f file; mv file other; ln file hard; echo yes > $EDIT/new; cat file"
    )
    result = await harness.shell(script)
    assert result.out == "kept"
    assert [path.name for path in harness.tree.iterdir()] == ["file"]
    assert (harness.tree / "file").read_text() == "kept"
    assert (harness.edit / "new").read_text() == "yes\n"


async def test_mounts_inside_a_mount_are_laid_out_and_the_originals_are_unharmed(harness):
    (harness.tree / "part").mkdir()
    (harness.tree / "part" / "old").write_text("covered")
    (harness.tree / "file").write_text("kept")
    other = harness.root / "other"
    other.mkdir(mode=0o755)
    (other / "new").write_text("covering")
    result = await harness.shell(
        "cat file part/*; echo no > file; echo no > part/new; chmod 777 file part/new; touch $BUILD/x",
        env={"BUILD": "/tree/build", "PATH": PATH},
        mounts=(
            Mount(harness.tree, "/tree"),
            Mount(other, "/tree/part"),
            Mount(harness.edit, "/edit", writable=True),
        ),
        scratch=("/tree/build",),
    )
    assert result.out.startswith("keptcovering")
    assert ((harness.tree / "file").read_text(), (other / "new").read_text()) == ("kept", "covering")
    assert (harness.tree / "file").stat().st_mode & 0o777 != 0o777
    assert result.exit.code == 0


async def test_a_file_that_the_host_adds_to_a_mount_is_visible(harness):
    def add() -> None:
        while not (harness.edit / "ready").exists():
            time.sleep(0.01)
        (harness.tree / "stop").write_text("seen")

    script = 'echo > "$EDIT/ready"; until [ -e stop ]; do sleep 0.01; done; cat stop'
    result, _ = await asyncio.gather(harness.shell(script), asyncio.to_thread(add))
    assert result.out == "seen"


async def test_nothing_outside_can_be_read_or_listed(harness, outside):
    result = await harness.shell(
        f"cat {outside}/file; ls {outside} /root /home /var /run /proc /sys; cat /etc/shadow"
    )
    assert result.out == ""


async def test_a_link_to_a_hidden_file_leads_nowhere(harness, outside):
    (harness.tree / "link").symlink_to(outside)
    result = await harness.shell("cat link/file; cd /proc/self/root/var/tmp && ls; cat /proc/self/cwd/link/file")
    assert result.out == ""


CHANGES = """
import ctypes, json, os, sys
file, directory = sys.argv[1] + "/file", sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)

def error_of(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno
    return 0

read_only = os.open(sys.argv[2] + "/held", os.O_RDONLY)
bare = os.open(file, os.O_PATH)
print(json.dumps({
    "write": error_of(lambda: open(file, "w")),
    "append": error_of(lambda: open(file, "a")),
    "truncate": error_of(lambda: os.truncate(file, 0)),
    "create": error_of(lambda: open(directory + "/new", "w")),
    "mkdir": error_of(lambda: os.mkdir(directory + "/made")),
    "unlink": error_of(lambda: os.unlink(file)),
    "rename": error_of(lambda: os.rename(file, directory + "/moved")),
    "take": error_of(lambda: os.rename(file, "taken")),
    "link": error_of(lambda: os.link(file, "linked")),
    "chmod": error_of(lambda: os.chmod(file, 0o600)),
    "chmod of a descriptor": error_of(lambda: os.chmod(read_only, 0o600)),
    "chmod by /proc": error_of(lambda: os.chmod(f"/proc/self/fd/{bare}", 0o600)),
    "chmod by a link": error_of(lambda: (os.symlink(file, "there"), os.chmod("there", 0o600))),
    "utime": error_of(lambda: os.utime(file, (1, 1))),
    "utime of a descriptor": error_of(lambda: os.utime(read_only, (1, 1))),
    "chown": error_of(lambda: os.chown(file, -1, -1)),
    "setxattr": error_of(lambda: os.setxattr(file, "user.x", b"x")),
}))
"""


async def test_nothing_outside_can_be_changed_in_any_way(harness, outside):
    (harness.tree / "held").write_text("held")
    os.chown(harness.tree / "held", *(trial_owner() or (os.getuid(), os.getgid())))
    before = [(path.stat().st_mode, path.stat().st_mtime) for path in (outside, outside / "file")]
    launch = harness.launch(*harness.interpreter, CHANGES, str(outside), "/tree")
    result = await harness.run(harness.launch(*launch.argv, env={"PATH": PATH}, cwd="/edit"))
    results = json.loads(result.out)
    assert [name for name, error in results.items() if error == 0] == []
    assert [(path.stat().st_mode, path.stat().st_mtime) for path in (outside, outside / "file")] == before
    assert (harness.tree / "held").stat().st_mtime > 1
    assert (outside / "file").read_text() == "secret"


async def test_modes_and_times_of_its_own_files_can_be_changed(harness):
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
    result = await harness.python(script, cwd="/edit")
    expected = ["0o640", "0o711 5.0 7.0 0o700", "3.0", "True", str(errno.ENOENT), str(errno.EBADF)]
    assert result.out.splitlines() == expected, result.err


async def test_a_home_a_temporary_directory_and_devices_can_be_used(harness):
    script = """
set -e
echo x > "$HOME/file"; echo x > "$TMPDIR/file"; t=$(mktemp); mv "$t" "$HOME/moved"; ln "$HOME/moved" "$HOME/hard"
echo x > /dev/null; head -c 4 /dev/zero > /dev/null; head -c 4 /dev/urandom > /dev/null
read line < /proc/self/status; cat < /dev/null; echo done
"""
    result = await harness.shell(script)
    assert result.out == "done\n", result.err
    assert result.exit.code == 0


async def test_a_program_can_be_built_and_run(harness):
    (harness.tree / "main.c").write_text('#include <stdio.h>\nint main(void) { return puts("built") < 0; }\n')
    result = await harness.shell(
        "cc -o $BUILD/main main.c && $BUILD/main", env={"BUILD": "/build", "PATH": PATH}, scratch=("/build",)
    )
    if "not found" in result.err:
        pytest.skip("there is no compiler")
    assert result.out == "built\n", result.err


async def test_no_variable_of_the_host_reaches_the_trial(harness, monkeypatch):
    monkeypatch.setenv("SECRET", "leaked")
    result = await harness.python("import os; print(*sorted(os.environ))", env={"OWN": "value"})
    assert set(result.out.split()) - {"LC_CTYPE"} == {"OWN", "HOME", "TMPDIR"}


CONNECTIONS = """
import errno, json, socket, sys

def connect(family, address, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(family, kind) as client:
            client.settimeout(5)
            if kind == socket.SOCK_STREAM:
                client.connect(address)
            else:
                client.sendto(b"x", address)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "connected"

path, abstract, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
print(json.dumps({
    "tcp": connect(socket.AF_INET, ("127.0.0.1", port)),
    "udp": connect(socket.AF_INET, ("127.0.0.1", port), socket.SOCK_DGRAM),
    "tcp6": connect(socket.AF_INET6, ("::1", port)),
    "path": connect(socket.AF_UNIX, path),
    "abstract": connect(socket.AF_UNIX, "\\0" + abstract),
    "datagram": connect(socket.AF_UNIX, path, socket.SOCK_DGRAM),
    "vsock": connect(socket.AF_VSOCK, (2, port)),
}))
"""


@pytest.fixture
def listeners(outside):
    """A port, a path and an abstract name on the host that accept every client."""
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


async def test_no_socket_of_the_host_can_be_reached(harness, listeners):
    result = await harness.run(harness.launch(*harness.interpreter, CONNECTIONS, *listeners))
    assert json.loads(result.out) == {
        "tcp": "EAFNOSUPPORT",
        "udp": "EAFNOSUPPORT",
        "tcp6": "EAFNOSUPPORT",
        "path": "EACCES",
        "abstract": "ECONNREFUSED",
        "datagram": "EPROTONOSUPPORT",
        "vsock": "EAFNOSUPPORT",
    }


async def test_a_launch_that_asks_for_the_network_has_it_but_no_socket_of_the_host(harness, listeners):
    result = await harness.run(harness.launch(*harness.interpreter, CONNECTIONS, *listeners, network=True))
    results = json.loads(result.out)
    assert (results["tcp"], results["path"], results["abstract"]) == ("connected", "EACCES", "ECONNREFUSED")


async def test_a_mounted_socket_can_be_reached(harness, outside):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(outside / "socket"))
        (outside / "socket").chmod(0o777)
        server.listen()
        script = (
            "import os, socket; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['SOCKET']); print('in')"
        )
        for mount in (Mount(outside, "/service"), Mount(outside / "socket", "/service/socket")):
            launch = harness.launch(*harness.interpreter, script, env={"SOCKET": "/service/socket"})
            result = await harness.run(
                harness.launch(*launch.argv, env=launch.env, mounts=(*launch.mounts, mount))
            )
            assert result.out == "in\n", result.err


async def test_sockets_between_its_own_processes_work(harness):
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
    result = await harness.python(script)
    assert result.out == "b'hello'\nb'pair'\n", result.err


OTHERS = """
import ctypes, json, os, resource, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])

def error_of(attempt):
    try:
        result = attempt()
    except OSError as error:
        return error.errno
    return ctypes.get_errno() if result == -1 else 0

def read(name):
    with open(f"/proc/{pid}/{name}", "rb") as file:
        file.read()

print(json.dumps({
    "signal": error_of(lambda: os.kill(pid, signal.SIGTERM)),
    "signal to the parent": error_of(lambda: os.kill(os.getppid(), 0)),
    "pidfd": error_of(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGTERM)),
    "limits": error_of(lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))),
    "priority": error_of(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)),
    "priority of the user": error_of(lambda: os.setpriority(os.PRIO_USER, 0, 19)),
    "affinity": error_of(lambda: os.sched_setaffinity(pid, {0})),
    "ptrace": error_of(lambda: libc.ptrace(16, pid, 0, 0)),
    "memory": error_of(lambda: read("mem")),
    "environment": error_of(lambda: read("environ")),
    "command line": error_of(lambda: read("cmdline")),
    "status": error_of(lambda: read("status")),
    "files": error_of(lambda: os.listdir(f"/proc/{pid}/fd")),
    "root": error_of(lambda: os.listdir(f"/proc/{pid}/root/")),
    "processes": error_of(lambda: os.listdir("/proc")),
}))
"""


async def test_other_processes_of_the_same_user_are_out_of_reach(harness, bystander):
    result = await harness.run(harness.launch(*harness.interpreter, OTHERS, str(bystander)))
    assert [name for name, error in json.loads(result.out).items() if error == 0] == []
    os.kill(bystander, 0)


async def test_its_own_processes_can_be_signalled(harness):
    result = await harness.shell("sleep 1000 & kill -9 $!; wait $!; echo $?")
    assert result.out == "137\n"


CALLS = """
import ctypes, json, os, platform
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"

def error_of(result):
    return ctypes.get_errno() if result == -1 else 0

def call(number, *arguments):
    return error_of(libc.syscall(*map(ctypes.c_long, (number, *arguments))))

print(json.dumps({
    "ptrace": error_of(libc.ptrace(0, 0, 0, 0)),
    "unshare": error_of(libc.unshare(0x10000000)),
    "mount": error_of(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "chroot": error_of(libc.chroot(b"/")),
    "bpf": call(321 if x86 else 280, 0, 0, 0),
    "shmat": call(30 if x86 else 196, 0, 0, 0),
    "inotify": error_of(libc.inotify_add_watch(libc.inotify_init(), b"/", 0x2)),
    "clone3": call(435, 0, 0),
    "memfd": error_of(libc.memfd_create(b"x", 0)),
    "setflags": error_of(libc.ioctl(os.open("/usr", os.O_RDONLY), 0x40086602, ctypes.byref(ctypes.c_long(0)))),
}))
"""


async def test_calls_that_no_trial_needs_are_refused(harness):
    result = await harness.python(CALLS)
    results = json.loads(result.out)
    assert {results.pop(name) for name in ("ptrace", "unshare", "mount", "chroot", "bpf")} == {errno.EPERM}
    assert results.pop("setflags") == errno.ENOTTY
    assert set(results.values()) == {errno.ENOSYS}


@pytest.mark.skipif(trial_owner() is None, reason="only root has another user for its trials")
async def test_a_trial_is_never_root(harness):
    await harness.shell("touch $EDIT/mine")
    assert (harness.edit / "mine").stat().st_uid == trial_owner()[0]
