"""No sandbox: mounts are laid out, bounds are enforced where possible, leftover processes are found and killed."""

from __future__ import annotations

import pytest

from loopty.domain.launch import Mount, Protection, Stop
from loopty.sandboxes.unsafe import Unsafe
from loopty.testing.sandbox_harness import bounds_with, pids_with
from loopty.testing.sandbox_suite import SandboxConformance

# It keeps its descriptors, so that it holds the output open.
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    os._exit(0)
os.wait()
"""


class TestUnsafe(SandboxConformance):
    @pytest.fixture
    def sandbox(self):
        return Unsafe()


@pytest.fixture
def harness(harness_of):
    return harness_of(Unsafe())


async def test_mounts_are_laid_out_and_paths_are_translated(harness):
    (harness.tree / "file").write_text("shown")
    (harness.tree / "part").mkdir()
    result = await harness.run(
        harness.launch(
            "/bin/sh",
            "-c",
            "cat file; cat $FILE; echo new > file; echo kept > part/new; pwd; ls -A $BUILD; echo $PATH",
            env={"FILE": "/tree/file", "BUILD": "/build", "PATH": "/tree/bin:/usr/bin:/bin"},
            mounts=(Mount(harness.tree, "/tree"), Mount(harness.edit, "/tree/part", writable=True)),
            scratch=("/build",),
        )
    )
    lines = result.out.split("\n")
    assert lines[0] == f"shownshown{lines[0][10:]}"
    assert lines[1].endswith("/tree/bin:/usr/bin:/bin")
    assert (harness.tree / "file").read_text() == "shown"
    assert (harness.edit / "new").read_text() == "kept\n"


async def test_no_variable_of_the_host_reaches_the_trial(harness, monkeypatch):
    monkeypatch.setenv("SECRET", "leaked")
    result = await harness.shell("env")
    assert "SECRET" not in result.out


async def test_disk_is_bounded(harness):
    script = "head -c 9000000 /dev/zero > $EDIT/file; sleep 1000"
    assert (await harness.shell(script, bounds=bounds_with(disk_mb=2))).exit.stop is Stop.DISK


async def test_a_daemon_is_found_and_killed(harness):
    await harness.python(f"'unsafe-daemon'\n{DAEMON}")
    assert pids_with("unsafe-daemon") == []


async def test_the_open_network_is_a_declared_gap():
    assert any(gap.protection is Protection.NETWORK for gap in Unsafe().gaps)
