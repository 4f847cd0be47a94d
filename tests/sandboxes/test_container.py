"""Real containers, where an installed engine can run one: what a trial can reach, and what it leaves."""

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
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Mount, SandboxError, Stop
from loopty.kit.installation import working_program
from loopty.sandboxes.container.sandbox import Container
from loopty.sandboxes.probe import probe
from loopty.testing.sandbox_harness import bounds_with, pids_with, wait_until
from loopty.testing.sandbox_suite import SandboxConformance

from ..needs import require

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
    """A tar of this machine's shell and a few programs with their libraries, so that no registry is needed."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
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
    return archive.getvalue()


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An engine that can run containers here and has the image of these tests."""
    name = request.param
    require(name)
    with pytest.MonkeyPatch.context() as patch:
        if working_program("runc"):  # podman's usual runtime does not know mixed hierarchies of cgroups
            settings = tmp_path_factory.mktemp("containers") / "containers.conf"
            settings.write_text('[engine]\nruntime = "runc"\n')
            patch.setenv("CONTAINERS_CONF", str(settings))
        yield from _engine_with_image(name)


def _engine_with_image(name: str) -> Iterator[str]:
    done = subprocess.run(
        [name, "import", "--change", "VOLUME /volume", "-", IMAGE], input=minimal_system(), capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"{name} cannot import an image here: {done.stderr.decode(errors='replace')}")
    try:
        report = asyncio.run(probe(Container(name, IMAGE, False)))
        if not report.ok:
            pytest.skip(f"{name} cannot run a container here: {report.problem}")
        yield name
    finally:
        subprocess.run([name, "rmi", "--force", IMAGE], capture_output=True)


@pytest.fixture
def harness(engine, harness_of):
    return harness_of(Container(engine, IMAGE, False))


def containers(engine: str) -> list[str]:
    command = [engine, "ps", "--all", "--filter", "name=^loopty-", "--format", "{{.Names}}"]
    return [
        name for name in subprocess.run(command, capture_output=True, text=True).stdout.split() if is_ours(name)
    ]


def is_ours(name: str) -> bool:
    return f"-{os.getpid()}-" in name


class TestContainer(SandboxConformance):
    @pytest.fixture
    def sandbox(self, engine):
        return Container(engine, IMAGE, False)


async def test_a_missing_mount_is_a_failure_of_the_sandbox(harness):
    with pytest.raises(SandboxError, match="cannot open bind source"):
        await harness.shell("true", mounts=(Mount(harness.root / "absent", "/tree"),))


async def test_only_writable_paths_can_be_written(harness):
    (harness.tree / "file").write_text("kept")
    result = await harness.shell(
        "for d in / /usr /etc /dev /run /proc/sys/kernel /tree; do touch $d/new && echo wrote $d; done;"
        "echo no > /tree/file; echo yes > /edit/new; echo yes > /tmp/new; echo yes > /dev/shm/new; cat /tmp/new"
    )
    assert result.out == "yes\n"
    assert (harness.tree / "file").read_text() == "kept"
    assert (harness.edit / "new").read_text() == "yes\n"


async def test_scratch_is_empty_writable_and_executable_even_over_files_of_the_tree(harness):
    (harness.tree / "build").mkdir()
    (harness.tree / "build" / "old").write_text("old")
    script = "ls -A /tree/build; echo '#!/bin/sh\necho ran' > /tree/build/new; chmod +x build/new; build/new"
    result = await harness.shell(script, scratch=("/tree/build",))
    assert result.out == "ran\n"
    assert [path.name for path in (harness.tree / "build").iterdir()] == ["old"]


async def test_a_volume_of_the_image_is_not_on_the_hosts_disk(harness):
    result = await harness.shell("touch /volume/file && grep ' /volume ' /proc/self/mounts")
    assert result.out.startswith("tmpfs ")


async def test_advice_to_drop_a_file_from_memory_succeeds_and_does_nothing(harness):
    (harness.tree / "file").write_text("kept")
    script = """
import mmap, os
file = os.open("/tree/file", os.O_RDONLY)
os.fsync(file)
pages = mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
pages[0], pages.madvise(20), pages.madvise(21), os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
pages.close()
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
print(os.preadv(file, [bytearray(4)], 0, os.RWF_NOWAIT))
"""
    result = await harness.python(script)
    assert (result.out, result.err) == ("4\n", "")


async def test_mounts_with_special_characters_can_be_nested(harness):
    odd = harness.root / "a, b=c"
    (odd / "in").mkdir(parents=True)
    (odd / "in" / "file").write_text("deep")
    mounts = (*harness.launch("").mounts, Mount(odd, "/x,y"), Mount(odd / "in", "/x,y/in"), Mount(odd, "/z:z"))
    result = await harness.shell("cat /x,y/in/file /z:z/in/file", mounts=mounts[:-1])
    assert result.out == "deep", result.err
    with pytest.raises(SandboxError, match="both a colon and a comma"):
        await harness.shell("true", mounts=mounts)


async def test_a_trial_has_no_privileges(harness):
    result = await harness.shell(
        "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; cat /proc/net/dev"
    )
    assert dict(re.findall(r"(\w+):\s+(\w+)\n", result.out)) == {
        "CapEff": "0" * 16,
        "CapBnd": "0" * 16,
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }
    assert re.findall(r"(\w+): ", result.out.partition("compressed")[2]) == ["lo"]


async def test_variables_arrive_whole_and_none_comes_from_the_host(harness, monkeypatch):
    monkeypatch.setenv("SECRET", "of the host")
    monkeypatch.setenv("http_proxy", "http://user:password@host")
    launch = harness.launch(
        "/bin/sh",
        "-c",
        'echo "$OWN"; env; sleep 1',
        env={"OWN": "two\nlines-on-no-command-line", "PATH": "/usr/bin:/bin"},
    )
    seen = []
    task = asyncio.create_task(harness.run(launch))
    while not task.done():
        seen += pids_with("lines-on-no-command-line")
        await asyncio.sleep(0.05)
    result = await task
    assert seen == []
    assert result.out.startswith("two\nlines-on-no-command-line\n")
    assert "HOME=/tmp\n" in result.out
    assert "SECRET" not in result.out
    assert "password" not in result.out


async def test_a_trial_can_open_ordinary_sockets_but_none_to_the_hypervisor(harness):
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
    result = await harness.python(script)
    assert result.out == "refused\n", result.err


async def test_a_trial_sees_only_its_own_processes(harness):
    result = await harness.shell("ls -d /proc/[0-9]*")
    assert len(result.out.split()) <= 3


async def test_processes_are_bounded(harness):
    if any("processes" in gap.words for gap in harness.sandbox.gaps):
        pytest.skip("this engine cannot bound processes here")
    script = "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; ls -d /proc/[0-9]*"
    result = await harness.shell(script, bounds=bounds_with(processes=10, seconds=30))
    assert result.exit.code != 0
    assert "ork" in result.err


async def test_memory_is_bounded(harness):
    result = await harness.shell("tail /dev/zero", bounds=bounds_with(memory_mb=50))
    assert result.exit.stop is Stop.MEMORY or result.exit.code == 128 + signal.SIGKILL


async def test_disk_is_bounded(harness):
    script = "i=0; while :; do head -c 100000 /dev/zero > /edit/$i; i=$((i+1)); done"
    assert (await harness.shell(script, bounds=bounds_with(disk_mb=4))).exit.stop is Stop.DISK


async def test_a_file_in_memory_cannot_grow_beyond_the_bound(harness):
    script = "for i in 1 2 3 4; do head -c 900000 /dev/zero > /tmp/$i || echo full; done"
    assert "full" in (await harness.shell(script, bounds=bounds_with(disk_mb=2))).out


@pytest.mark.parametrize("delay", [0, 0.1, 0.2])
async def test_a_task_cancelled_during_set_up_leaves_nothing(engine, harness, delay):
    await harness.shell("true")
    token = f"early-box-{os.getpid()}"
    task = asyncio.create_task(harness.run(harness.launch("/bin/sh", "-c", f"sleep 1000; : {token}")))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert containers(engine) == pids_with(token) == []


async def test_many_trials_at_once_leave_nothing_behind(engine, harness):
    await harness.shell("true")
    gc.collect()  # sandboxes of earlier tests stop their watchers
    before = sorted(Path("/proc/self/fd").iterdir())
    launches = [
        harness.launch("/bin/sh", "-c", f"exit {code}", stdout=harness.root / str(code)) for code in range(4)
    ]
    results = await asyncio.gather(*(harness.sandbox.run(launch, asyncio.Event()) for launch in launches))
    assert [result.code for result in results] == [0, 1, 2, 3]
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    assert containers(engine) == []


PARENT = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from loopty.domain.launch import Bounds, Launch
    from loopty.sandboxes.container.sandbox import Container

    root = Path(sys.argv[1])
    bounds = Bounds(seconds=1000, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
    argv = ("/bin/sh", "-c", "echo begun; sleep 1000; : killed-box")
    launch = Launch(argv, "/", bounds, root / "out", root / "err", {"PATH": "/bin"})
    asyncio.run(Container(sys.argv[2], sys.argv[3], False).run(launch, asyncio.Event()))
""")


def test_a_trial_dies_when_loopty_is_killed(engine, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    command = [sys.executable, "-c", PARENT, str(tmp_path), engine, IMAGE]
    parent = subprocess.Popen(command, env=environment)
    out = tmp_path / "out"
    wait_until(lambda: out.exists() and out.read_text())
    parent.kill()
    parent.wait()
    wait_until(lambda: pids_with("killed-box") == [])
