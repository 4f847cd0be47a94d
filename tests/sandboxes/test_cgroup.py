"""Cgroups of trials: made with bounds, removed with all that is in them, also by those who come later."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Bounds, Stop
from loopty.sandboxes import cgroup
from loopty.sandboxes.cgroup import Cgroup, can_make_cgroups
from loopty.sandboxes.landlock import Landlock

pytestmark = pytest.mark.skipif(not can_make_cgroups(), reason="no cgroup can be made here")

BOUNDS = Bounds(seconds=60, memory_mb=32, processes=32, output_mb=4, disk_mb=32)
# Pages of a shared mapping stay when they are let go, and then show in no process.
LETTING_GO = """
import mmap, os, time
taken = mmap.mmap(-1, 128 << 20)
for start in range(0, len(taken), 1 << 20):
    taken[start : start + (1 << 20)] = b"x" * (1 << 20)
    taken.madvise(mmap.MADV_DONTNEED, start, 1 << 20)
"""


@pytest.fixture
def made():
    group = Cgroup.create(BOUNDS)
    assert group is not None
    yield group
    group.remove()


def test_one_that_runs_out_of_memory_says_so(made):
    assert not made.has_run_out_of_memory()
    waiting = "import sys; sys.stdin.read(1); taken = b'x' * (64 << 20)"
    with subprocess.Popen([sys.executable, "-c", waiting], stdin=subprocess.PIPE) as hungry:
        made.admit(hungry.pid)
        hungry.communicate(b"\n")
    assert hungry.returncode == -signal.SIGKILL
    assert made.has_run_out_of_memory()


def test_what_is_in_it_is_killed_when_it_is_removed(made):
    with subprocess.Popen(["sleep", "1000"]) as left:
        made.admit(left.pid)
        made.remove()
        assert left.wait(30) == -signal.SIGKILL
    made.remove()
    assert not made._folder.exists()


def test_those_who_are_gone_are_not_admitted_and_that_is_no_harm(made):
    with subprocess.Popen(["true"]) as gone:
        pass
    made.admit(gone.pid)
    made.remove()
    made.admit(gone.pid)


LEAVING = """
from loopty.domain.launch import Bounds
from loopty.sandboxes.cgroup import Cgroup
print(Cgroup.made(Bounds(1, 16, 1, 1, 1))._folder)
"""


def test_what_the_dead_have_left_is_swept_and_nothing_else(made):
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    command = [sys.executable, "-c", LEAVING]
    left = Path(
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    )
    assert left.exists()
    cgroup._parent.cache_clear()
    other = Cgroup.create(BOUNDS)
    assert other is not None
    other.remove()
    assert not left.exists()
    assert made._folder.exists()


@pytest.fixture(params=["bubblewrap", "landlock"])
def where(request, place):
    if request.param == "bubblewrap":
        return place
    if not Landlock()._abi:
        pytest.skip("this kernel has no Landlock")
    return type(place)(place.root, Landlock())


async def test_memory_that_no_process_shows_is_counted(where, bounded):
    ran = await where.python(f"{LETTING_GO}\ntime.sleep(1000)", bounds=bounded(memory_mb=64))
    assert ran.exit.stop is Stop.MEMORY


async def test_a_trial_that_the_kernel_ended_ran_out_of_memory(where, bounded):
    # At once: no watcher has had a look.
    script = "if os.fork() == 0:\n    taken = b'x' * (128 << 20)\nprint(os.wait()[1])"
    ran = await where.python(f"import os\n{script}", bounds=bounded(memory_mb=64))
    assert ran.exit.stop is Stop.MEMORY


async def test_nothing_is_left_of_their_cgroups(where):
    ground = cgroup._parent()
    assert ground is not None
    before = set(ground.folder.glob(f"{cgroup.fresh_name().rpartition('-')[0]}-*"))
    for _ in range(10):
        await where.shell("true")
    assert set(ground.folder.glob(f"{cgroup.fresh_name().rpartition('-')[0]}-*")) == before
