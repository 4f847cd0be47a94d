"""Cgroups of trials: created with bounds, removed with every process in them, also by a later loopty."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import loopty
from loopty.domain.launch import Bounds, Stop
from loopty.sandboxes import cgroup
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.cgroup import Cgroup, can_make_cgroups
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.sandboxes.namespaces.sandbox import Namespaces
from loopty.testing.sandbox_harness import bounds_with

pytestmark = pytest.mark.skipif(not can_make_cgroups(), reason="this user cannot create cgroups here")

BOUNDS = Bounds(seconds=60, memory_mb=32, processes=32, output_mb=4, disk_mb=32)
# Pages of a shared mapping stay when a process releases them, and then no process shows them.
RELEASE_PAGES = """
import mmap, os, time
taken = mmap.mmap(-1, 128 << 20)
for start in range(0, len(taken), 1 << 20):
    taken[start : start + (1 << 20)] = b"x" * (1 << 20)
    taken.madvise(mmap.MADV_DONTNEED, start, 1 << 20)
"""


@pytest.fixture
def group():
    created = Cgroup.create(BOUNDS)
    assert created is not None
    yield created
    created.remove()


def test_a_group_that_runs_out_of_memory_says_so(group):
    assert not group.has_run_out_of_memory()
    script = "import sys; sys.stdin.read(1); taken = b'x' * (64 << 20)"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        group.admit(process.pid)
        process.communicate(b"\n")
    assert process.returncode == -signal.SIGKILL
    assert group.has_run_out_of_memory()


def test_removing_a_group_kills_its_processes(group):
    with subprocess.Popen(["sleep", "1000"]) as left:
        group.admit(left.pid)
        group.remove()
        assert left.wait(30) == -signal.SIGKILL
    group.remove()
    assert not group._folder.exists()


def test_dead_processes_are_not_admitted_and_raise_no_error(group):
    with subprocess.Popen(["true"]) as gone:
        pass
    group.admit(gone.pid)
    group.remove()
    group.admit(gone.pid)


LEAVE_GROUP = """
from loopty.domain.launch import Bounds
from loopty.sandboxes.cgroup import Cgroup
print(Cgroup.create(Bounds(1, 16, 1, 1, 1))._folder)
"""


def test_only_groups_of_dead_processes_are_removed_by_the_next_loopty(group):
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    command = [sys.executable, "-c", LEAVE_GROUP]
    left = Path(
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    )
    assert left.exists()
    cgroup._parent.cache_clear()
    other = Cgroup.create(BOUNDS)
    assert other is not None
    other.remove()
    assert not left.exists()
    assert group._folder.exists()


@pytest.fixture(params=[Namespaces, Bubblewrap, Landlock])
def isolated(request, harness_of):
    if request.param is Landlock and not Landlock()._abi:
        pytest.skip("this kernel has no Landlock")
    return harness_of(request.param())


async def test_memory_that_no_process_shows_is_counted(isolated):
    result = await isolated.python(f"{RELEASE_PAGES}\ntime.sleep(1000)", bounds=bounds_with(memory_mb=64))
    assert result.exit.stop is Stop.MEMORY


async def test_a_trial_that_the_kernel_killed_ran_out_of_memory(isolated):
    # At once, before any watcher has measured.
    script = "if os.fork() == 0:\n    taken = b'x' * (128 << 20)\nprint(os.wait()[1])"
    result = await isolated.python(f"import os\n{script}", bounds=bounds_with(memory_mb=64))
    assert result.exit.stop is Stop.MEMORY


@pytest.fixture
def made(monkeypatch):
    """The groups that this process has made."""
    groups, make = [], cgroup._make_group

    def make_and_note(parent):
        groups.append(make(parent))
        return groups[-1]

    monkeypatch.setattr(cgroup, "_make_group", make_and_note)
    return groups


async def test_trials_leave_no_cgroup_behind(isolated, made):
    for _ in range(10):
        await isolated.shell("true")
    assert made
    assert [group._folder for group in made if group._folder.exists()] == []


async def test_a_trial_learns_nothing_from_the_name_of_its_group(harness, made):
    result = await harness.shell("cat /proc/self/cgroup")
    # bubblewrap may have been in the group when it created the namespace; then the trial sees no name at all.
    seen = set(re.findall(r"loopty[^/\s]*", result.out))
    names = {group._folder.name for group in made}
    assert "memory" in result.out or "0::" in result.out
    assert names
    assert seen <= names
    assert [name for name in names if not re.fullmatch("loopty-[0-9a-f]{16}", name)] == []


MAKE_MANY = """
import sys
from loopty.domain.launch import Bounds
from loopty.sandboxes import cgroup
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
for number in range(12):
    cgroup._parent.cache_clear()
    group = cgroup.Cgroup.create(Bounds(1, 16, 1, 1, 1))
    assert group is not None and group._folder.exists(), number
    if number % 2:
        group.remove()
print(sum(1 for _ in cgroup._parent().folder.glob("loopty-*")))
"""


def test_many_processes_at_once_remove_no_group_of_a_living_one(group):
    environment = {"PYTHONPATH": str(Path(loopty.__file__).parent.parent)}
    command = [sys.executable, "-c", MAKE_MANY]
    processes = [subprocess.Popen(command, env=environment) for _ in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    assert group._folder.exists()
