"""No sandbox: the view is laid out, the bounds that can be kept are kept, survivors are hunted."""

from __future__ import annotations

import os

import pytest

from loopty.domain.launch import Mount, Protection, Stop
from loopty.sandboxes.unsafe import Unsafe

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


@pytest.fixture
def open_place(place_of):
    return place_of(Unsafe())


async def test_the_view_is_laid_out_and_paths_are_moved(open_place):
    (open_place.tree / "file").write_text("shown")
    (open_place.tree / "part").mkdir()
    ran = await open_place.run(
        open_place.launch(
            "/bin/sh",
            "-c",
            "cat file; cat $WHERE; echo new > file; echo kept > part/new; pwd; ls -A $BUILD; echo $PATH",
            env={"WHERE": "/tree/file", "BUILD": "/build", "PATH": "/tree/bin:/usr/bin:/bin"},
            mounts=(Mount(open_place.tree, "/tree"), Mount(open_place.edit, "/tree/part", writable=True)),
            scratch=("/build",),
        )
    )
    lines = ran.out.split("\n")
    assert lines[0] == f"shownshown{lines[0][10:]}"
    assert lines[1].endswith("/tree/bin:/usr/bin:/bin")
    assert (open_place.tree / "file").read_text() == "shown"
    assert (open_place.edit / "new").read_text() == "kept\n"


async def test_no_variable_of_the_host_reaches_the_trial(open_place, monkeypatch):
    monkeypatch.setenv("SECRET", "leaked")
    ran = await open_place.shell("env")
    assert "SECRET" not in ran.out


async def test_a_command_that_is_not_found_is_a_failed_command(open_place):
    ran = await open_place.run(open_place.launch("no-such-command"))
    assert ran.exit.code == 127


async def test_time_output_and_disk_are_bounded(open_place, bounded):
    assert (await open_place.shell("sleep 1000", bounds=bounded(seconds=0.3))).exit.stop is Stop.TIME
    assert (await open_place.shell("yes", bounds=bounded(output_mb=1))).exit.stop is Stop.OUTPUT
    flood = "head -c 9000000 /dev/zero > $EDIT/file; sleep 1000"
    filled = await open_place.shell(flood, env={"EDIT": "/edit", "PATH": os.defpath}, bounds=bounded(disk_mb=2))
    assert filled.exit.stop is Stop.DISK


async def test_a_daemon_is_hunted_down(open_place, alive):
    await open_place.python(f"'unsafe-daemon'\n{DAEMON}")
    assert alive("unsafe-daemon") == []


async def test_everything_it_does_not_give_is_listed():
    assert any(gap.protection is Protection.NETWORK for gap in Unsafe().gaps)
