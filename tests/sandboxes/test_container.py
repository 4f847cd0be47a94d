"""Real containers, where an engine is installed that can run one: what holds inside, and that nothing is left."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Mount, SandboxError, Stop
from loopty.sandboxes.container import Container
from loopty.sandboxes.probe import probe
from loopty.testing.sandbox_suite import SandboxConformance

IMAGE = f"loopty-test-{os.getpid()}"
PROGRAMS = (
    "sh",
    "cat",
    "chmod",
    "echo",
    "env",
    "grep",
    "head",
    "id",
    "ls",
    "mkdir",
    "sleep",
    "tail",
    "touch",
    "true",
)


def minimal_system() -> bytes:
    """A tar of this machine's shell and a few programs with their libraries: no registry is needed."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", dereference=True) as tar:
        for directory in ("dev", "etc", "proc", "run", "sys", "tmp", "volume"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "volume" else 0o755
            tar.addfile(entry)
        libraries = set()
        programs = {name: shutil.which(name, path="/usr/bin:/bin") for name in PROGRAMS}
        for name, program in programs.items():
            assert program is not None
            tar.add(program, f"usr/bin/{name}")
            tar.add(program, f"bin/{name}")
        # The interpreter itself is mounted.
        for program in (*programs.values(), sys.executable):
            linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
            libraries.update(re.findall(r"(/\S+) \(0x", linked))
        for library in sorted(libraries):
            tar.add(library, library.lstrip("/"))
    return written.getvalue()


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """An engine that can run a container here, and has the test's image."""
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    made = subprocess.run(
        [name, "import", "--change", "VOLUME /volume", "-", IMAGE], input=minimal_system(), capture_output=True
    )
    if made.returncode != 0:
        pytest.skip(f"{name} cannot import an image here: {made.stderr.decode(errors='replace')}")
    try:
        tried = asyncio.run(probe(Container(name, IMAGE, False)))
        if not tried.ok:
            pytest.skip(f"{name} cannot run a container here: {tried.problem}")
        yield name
    finally:
        subprocess.run([name, "rmi", "--force", IMAGE], capture_output=True)


@pytest.fixture
def place(engine, place_of):
    return place_of(Container(engine, IMAGE, False))


def containers(engine: str) -> list[str]:
    listed = [engine, "ps", "--all", "--filter", "name=^loopty-", "--format", "{{.Names}}"]
    return [
        name for name in subprocess.run(listed, capture_output=True, text=True).stdout.split() if is_ours(name)
    ]


def is_ours(name: str) -> bool:
    return f"-{os.getpid()}-" in name


class TestContainer(SandboxConformance):
    @pytest.fixture
    def sandbox(self, engine):
        return Container(engine, IMAGE, False)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 125", 125), ("kill -TERM $$", 128 + signal.SIGTERM)]
)
async def test_the_code_of_the_command_is_told(place, script, code):
    ran = await place.shell(script)
    assert (ran.exit.code, ran.exit.stop) == (code, None)


async def test_a_command_that_is_not_found_is_a_failed_command(place):
    assert (await place.run(place.launch("no-such-command"))).exit.code == 127


async def test_a_mount_that_is_not_there_is_not_a_failed_command(place):
    with pytest.raises(SandboxError, match="cannot open bind source"):
        await place.shell("true", mounts=(Mount(place.root / "absent", "/tree"),))


async def test_only_what_is_writable_can_be_written(place):
    (place.tree / "file").write_text("kept")
    ran = await place.shell(
        "for d in / /usr /etc /dev /run /proc/sys/kernel /tree; do touch $d/new && echo wrote $d; done;"
        "echo no > /tree/file; echo yes > /edit/new; echo yes > /tmp/new; echo yes > /dev/shm/new; cat /tmp/new"
    )
    assert ran.out == "yes\n"
    assert (place.tree / "file").read_text() == "kept"
    assert (place.edit / "new").read_text() == "yes\n"


async def test_scratch_is_empty_writable_and_executable_also_over_what_the_tree_has(place):
    (place.tree / "build").mkdir()
    (place.tree / "build" / "old").write_text("old")
    script = "ls -A /tree/build; echo '#!/bin/sh\necho ran' > /tree/build/new; chmod +x build/new; build/new"
    ran = await place.shell(script, scratch=("/tree/build",))
    assert ran.out == "ran\n"
    assert [path.name for path in (place.tree / "build").iterdir()] == ["old"]


async def test_a_volume_of_the_image_is_not_on_the_hosts_disk(place):
    ran = await place.shell("touch /volume/file && grep ' /volume ' /proc/self/mounts")
    assert ran.out.startswith("tmpfs ")


async def test_mounts_with_odd_names_are_shown_inside_each_other(place):
    odd = place.root / "a, b=c"
    (odd / "in").mkdir(parents=True)
    (odd / "in" / "file").write_text("deep")
    mounts = (*place.launch("").mounts, Mount(odd, "/x,y"), Mount(odd / "in", "/x,y/in"), Mount(odd, "/z:z"))
    ran = await place.shell("cat /x,y/in/file /z:z/in/file", mounts=mounts[:-1])
    assert ran.out == "deep", ran.err
    with pytest.raises(SandboxError, match="both a colon and a comma"):
        await place.shell("true", mounts=mounts)


async def test_a_trial_has_no_rights(place):
    ran = await place.shell("grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; cat /proc/net/dev")
    assert dict(re.findall(r"(\w+):\s+(\w+)\n", ran.out)) == {
        "CapEff": "0" * 16,
        "CapBnd": "0" * 16,
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }
    assert re.findall(r"(\w+): ", ran.out.partition("compressed")[2]) == ["lo"]


async def test_variables_arrive_whole_and_none_comes_from_the_host(place, monkeypatch, alive):
    monkeypatch.setenv("SECRET", "of the host")
    monkeypatch.setenv("http_proxy", "http://user:password@host")
    launch = place.launch(
        "/bin/sh",
        "-c",
        'echo "$ASKED"; env; sleep 1',
        env={"ASKED": "two\nlines-on-no-command-line", "PATH": "/usr/bin:/bin"},
    )
    seen = []
    task = asyncio.create_task(place.run(launch))
    while not task.done():
        seen += alive("lines-on-no-command-line")
        await asyncio.sleep(0.05)
    ran = await task
    assert seen == []
    assert ran.out.startswith("two\nlines-on-no-command-line\n")
    assert "HOME=/tmp\n" in ran.out
    assert "SECRET" not in ran.out
    assert "password" not in ran.out


async def test_a_trial_makes_ordinary_sockets_and_none_to_the_hypervisor(place):
    script = """
import socket
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    socket.socket(family, socket.SOCK_DGRAM).close()
socket.socketpair()
try:
    socket.socket(40, socket.SOCK_STREAM)
except OSError:
    print("refused")
"""
    ran = await place.python(script)
    assert ran.out == "refused\n", ran.err


async def test_a_trial_sees_no_process_but_its_own(place):
    ran = await place.shell("ls -d /proc/[0-9]*")
    assert len(ran.out.split()) <= 3


async def test_processes_are_bounded(place, bounded):
    if any("processes" in gap.words for gap in place.sandbox.gaps):
        pytest.skip("this engine cannot bound processes here")
    script = "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; ls -d /proc/[0-9]*"
    ran = await place.shell(script, bounds=bounded(processes=10, seconds=30))
    assert ran.exit.code != 0
    assert "ork" in ran.err


async def test_memory_is_bounded(place, bounded):
    ran = await place.shell("tail /dev/zero", bounds=bounded(memory_mb=50))
    assert ran.exit.stop is Stop.MEMORY or ran.exit.code == 128 + signal.SIGKILL


async def test_disk_is_bounded(place, bounded):
    script = "i=0; while :; do head -c 100000 /dev/zero > /edit/$i; i=$((i+1)); done"
    assert (await place.shell(script, bounds=bounded(disk_mb=4))).exit.stop is Stop.DISK


async def test_a_file_in_memory_cannot_grow_beyond_the_bound(place, bounded):
    script = "for i in 1 2 3 4; do head -c 900000 /dev/zero > /tmp/$i || echo full; done"
    assert "full" in (await place.shell(script, bounds=bounded(disk_mb=2))).out


@pytest.mark.parametrize("delay", [0, 0.1, 0.2])
async def test_a_task_cancelled_while_its_container_is_set_up_leaves_nothing(engine, place, alive, delay):
    await place.shell("true")
    token = f"early-box-{os.getpid()}"
    task = asyncio.create_task(place.run(place.launch("/bin/sh", "-c", f"sleep 1000; : {token}")))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert containers(engine) == alive(token) == []


async def test_many_at_once_leave_nothing_behind(engine, place):
    await place.shell("true")
    gc.collect()  # sandboxes of earlier tests take their watchers with them
    before = sorted(Path("/proc/self/fd").iterdir())
    launches = [place.launch("/bin/sh", "-c", f"exit {code}", stdout=place.root / str(code)) for code in range(4)]
    ends = await asyncio.gather(*(place.sandbox.run(launch, asyncio.Event()) for launch in launches))
    assert [end.code for end in ends] == [0, 1, 2, 3]
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    assert containers(engine) == []


PARENT = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from loopty.domain.launch import Bounds, Launch
    from loopty.sandboxes.container import Container

    root = Path(sys.argv[1])
    bounds = Bounds(seconds=1000, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
    argv = ("/bin/sh", "-c", "echo begun; sleep 1000; : killed-box")
    launch = Launch(argv, "/", bounds, root / "out", root / "err", {"PATH": "/bin"})
    asyncio.run(Container(sys.argv[2], sys.argv[3], False).run(launch, asyncio.Event()))
""")


def test_a_trial_dies_when_loopty_is_killed(engine, tmp_path, alive):
    environment = {**os.environ, "PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    command = [sys.executable, "-c", PARENT, str(tmp_path), engine, IMAGE]
    parent = subprocess.Popen(command, env=environment)
    out = tmp_path / "out"
    until(lambda: out.exists() and out.read_text())
    parent.kill()
    parent.wait()
    until(lambda: alive("killed-box") == [])


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
