"""Landlock enforces every bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopty.domain.launch import Stop
from loopty.sandboxes.landlock import order
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.testing.sandbox_harness import bounds_with
from loopty.testing.sandbox_suite import BoundConformance

try:
    LANDLOCK = order.version()
except OSError:
    LANDLOCK = 0
pytestmark = pytest.mark.skipif(LANDLOCK < 1, reason="this kernel has no Landlock")


class TestLandlock(BoundConformance):
    @pytest.fixture
    def sandbox(self):
        return Landlock()


@pytest.fixture
def harness(harness_of):
    return harness_of(Landlock())


async def test_processes_that_have_ended_no_longer_count(harness):
    result = await harness.shell(
        "for i in $(seq 40); do /bin/true; (true &) ; done; echo $i", bounds=bounds_with(processes=6)
    )
    assert result.out == "40\n", result.err


async def test_threads_count_as_processes(harness):
    script = """
import threading, time
try:
    for number in range(20):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
except RuntimeError:
    print(number, flush=True)
import os
os._exit(0)
"""
    result = await harness.python(script, bounds=bounds_with(processes=10))
    assert result.out == "9\n"


@pytest.mark.parametrize("folder", ["$TMPDIR", "$HOME"])
async def test_disk_is_bounded_in_the_folders_of_the_trial(harness, folder):
    script = f"i=0; while :; do head -c 100000 /dev/zero > {folder}/$i; i=$((i+1)); done"
    assert (await harness.shell(script, bounds=bounds_with(disk_mb=4))).exit.stop is Stop.DISK


async def test_a_directory_that_its_owner_cannot_enter_is_removed_at_the_end(harness):
    result = await harness.shell('mkdir -p "$HOME/a/b" && chmod 0 "$HOME/a"; echo "$HOME"')
    assert not Path(result.out.strip()).parent.exists()


async def test_a_broken_pipe_ends_a_program_as_usual(harness):
    result = await harness.shell("(yes; echo $? >&2) | head -n 1")
    assert result.out == "y\n"
    assert result.err == "141\n"
