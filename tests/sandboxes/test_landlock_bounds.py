"""What a trial under Landlock may use, and what becomes of one that takes more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from loopty.domain.launch import Stop
from loopty.sandboxes.landlock import Landlock
from loopty.sandboxes.landlock_supervisor import landlock_domain

try:
    LANDLOCK = landlock_domain.version()
except OSError:
    LANDLOCK = 0
pytestmark = pytest.mark.skipif(LANDLOCK < 1, reason="this kernel has no Landlock")

EDIT = {"EDIT": "/edit", "PATH": "/usr/bin:/bin"}


@pytest.fixture
def place(place_of):
    return place_of(Landlock())


async def test_the_bound_on_processes_is_exact_and_each_trial_has_its_own(place, bounded):
    script = """
import os, time
made = 1
try:
    while made < 20:
        if os.fork() == 0:
            time.sleep(1000)
        made += 1
except BlockingIOError:
    print(made, flush=True)
    time.sleep(0.5)
"""
    sandbox = Landlock()
    launches = [
        place.launch(*place.interpreter, script, bounds=bounded(processes=10), stdout=place.root / str(number))
        for number in range(3)
    ]
    await asyncio.gather(*(sandbox.run(launch, asyncio.Event()) for launch in launches))
    assert [launch.stdout.read_text() for launch in launches] == ["10\n"] * 3


async def test_processes_that_have_ended_count_no_more(place, bounded):
    ran = await place.shell(
        "for i in $(seq 40); do /bin/true; (true &) ; done; echo $i", bounds=bounded(processes=6)
    )
    assert ran.out == "40\n", ran.err


async def test_threads_count_as_processes(place, bounded):
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
    ran = await place.python(script, bounds=bounded(processes=10))
    assert ran.out == "9\n"


async def test_a_fork_bomb_is_bounded_and_dies(place, bounded, alive):
    script = "bomb() { bomb | bomb & }; bomb; : landlock-bomb; while :; do :; done"
    ran = await place.shell(script, bounds=bounded(processes=20, seconds=1.5, output_mb=64))
    assert ran.exit.stop is Stop.TIME
    assert alive("landlock-bomb") == []


async def test_memory_is_bounded_over_all_processes(place, bounded):
    script = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        mine = bytearray(40 << 20)
        time.sleep(1000)
time.sleep(1000)
"""
    assert (await place.python(script, bounds=bounded(memory_mb=200))).exit.stop is Stop.MEMORY


@pytest.mark.parametrize("where", ["$EDIT", "$TMPDIR", "$HOME"])
async def test_disk_is_bounded_over_many_files(place, bounded, where):
    script = f"i=0; while :; do head -c 100000 /dev/zero > {where}/$i; i=$((i+1)); done"
    assert (await place.shell(script, bounds=bounded(disk_mb=4), env=EDIT)).exit.stop is Stop.DISK


async def test_one_file_cannot_grow_beyond_the_bound(place, bounded):
    await place.shell("head -c 9000000 /dev/zero > $EDIT/file", bounds=bounded(disk_mb=2), env=EDIT)
    assert (place.edit / "file").stat().st_size == 2 << 20


async def test_a_directory_that_forbids_its_owner_is_removed_all_the_same(place):
    ran = await place.shell('mkdir -p "$HOME/a/b" && chmod 0 "$HOME/a"; echo "$HOME"')
    assert not Path(ran.out.strip()).parent.exists()


async def test_no_core_is_dumped(place):
    assert (await place.shell("ulimit -c; ulimit -Hc")).out == "0\n0\n"


async def test_the_trial_goes_first_when_memory_is_short(place):
    assert int((await place.shell("read score < /proc/self/oom_score_adj; echo $score")).out) >= 500


async def test_a_broken_pipe_ends_a_program_as_it_does_elsewhere(place):
    ran = await place.shell("(yes; echo $? >&2) | head -n 1")
    assert ran.out == "y\n"
    assert ran.err == "141\n"
