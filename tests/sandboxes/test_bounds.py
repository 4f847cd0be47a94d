"""What a trial may use, and what becomes of one that takes more."""

from __future__ import annotations

import asyncio
import signal

from loopty.core.launch import Stop
from loopty.sandboxes.bubblewrap import Bubblewrap


async def test_a_trial_that_takes_too_long_is_stopped(place, bounded):
    ran = await place.shell("echo begun; sleep 1000", bounds=bounded(seconds=0.5))
    assert ran.exit.stop is Stop.TIME
    assert ran.exit.code == 128 + signal.SIGKILL
    assert ran.out == "begun\n"


async def test_a_trial_can_be_cancelled(place):
    cancel = asyncio.Event()
    asyncio.get_running_loop().call_later(0.3, cancel.set)
    ran = await place.run(place.launch("/bin/sleep", "1000"), cancel)
    assert ran.exit.stop is Stop.CANCELLED


async def test_a_trial_cancelled_before_it_starts_ends_at_once(place, alive):
    cancel = asyncio.Event()
    cancel.set()
    ran = await place.run(place.launch("/bin/sh", "-c", "sleep 1000; : cancelled-token"), cancel)
    assert ran.exit.stop is Stop.CANCELLED
    assert alive("cancelled-token") == []


async def test_a_flood_of_output_is_cut(place, bounded):
    ran = await place.shell("yes & yes >&2", bounds=bounded(output_mb=1))
    assert ran.exit.stop is Stop.OUTPUT
    assert len(ran.out) + len(ran.err) == 1 << 20


async def test_a_short_flood_is_an_excess_even_when_the_command_has_ended(place, bounded):
    ran = await place.shell("head -c 1048577 /dev/zero", bounds=bounded(output_mb=1))
    assert ran.exit.stop is Stop.OUTPUT
    assert len(ran.out) == 1 << 20


async def test_output_up_to_the_bound_is_kept_whole(place, bounded):
    ran = await place.shell("head -c 1048576 /dev/zero", bounds=bounded(output_mb=1))
    assert ran.exit.stop is None
    assert len(ran.out) == 1 << 20


async def test_the_bound_on_processes_is_exact_and_each_trial_has_its_own(place, bounded):
    script = """
import os, time
made = 1
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
        made += 1
except OSError:
    print(made, flush=True)
    time.sleep(1)
"""
    sandbox = Bubblewrap()
    launches = [
        place.launch(*place.interpreter, script, bounds=bounded(processes=10), stdout=place.root / str(number))
        for number in range(3)
    ]
    await asyncio.gather(*(sandbox.run(launch, asyncio.Event()) for launch in launches))
    assert [launch.stdout.read_text() for launch in launches] == ["10\n"] * 3


async def test_a_fork_bomb_is_bounded_and_dies(place, bounded, alive):
    script = "bomb() { bomb | bomb & }; bomb; : forkbomb-token; while :; do sleep 0.1 || :; done"
    ran = await place.shell(script, bounds=bounded(processes=20, seconds=1.5, output_mb=64))
    assert ran.exit.stop is Stop.TIME
    assert alive("forkbomb-token") == []


async def test_memory_is_bounded_over_all_processes(place, bounded):
    script = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        mine = bytearray(40 << 20)
        time.sleep(1000)
time.sleep(1000)
"""
    ran = await place.python(script, bounds=bounded(memory_mb=200))
    assert ran.exit.stop is Stop.MEMORY


async def test_memory_shared_by_forking_counts_once(place, bounded):
    script = """
import os, time
ours = b"x" * (100 << 20)
for _ in range(6):
    if os.fork() == 0:
        break
time.sleep(1)
"""
    ran = await place.python(script, bounds=bounded(memory_mb=250))
    assert ran.exit.stop is None
    assert ran.exit.code == 0


async def test_files_in_memory_count_as_memory(place, bounded):
    script = "head -c 60000000 /dev/zero > /tmp/a; head -c 60000000 /dev/zero > /dev/shm/b; sleep 1000"
    ran = await place.shell(script, bounds=bounded(memory_mb=100, disk_mb=64))
    assert ran.exit.stop is Stop.MEMORY


async def test_empty_files_in_memory_count_as_memory(place, bounded):
    script = """
import time
for number in range(50_000):
    open(f"/tmp/{number}", "w").close()
time.sleep(1000)
"""
    ran = await place.python(script, bounds=bounded(memory_mb=40))
    assert ran.exit.stop is Stop.MEMORY


async def test_disk_is_bounded_over_many_files(place, bounded):
    script = "i=0; while :; do head -c 100000 /dev/zero > /edit/$i; i=$((i+1)); done"
    ran = await place.shell(script, bounds=bounded(disk_mb=4))
    assert ran.exit.stop is Stop.DISK


async def test_disk_is_bounded_over_empty_files(place, bounded):
    script = """
import os, time
for number in range(600):
    os.mkdir(f"/edit/{number}")
time.sleep(1000)
"""
    ran = await place.python(script, bounds=bounded(disk_mb=2))
    assert ran.exit.stop is Stop.DISK


async def test_disk_is_bounded_over_files_without_a_name(place, bounded):
    script = """
import os, time
held = []
for number in range(8):
    held.append(open("/edit/file", "wb"))
    os.unlink("/edit/file")
    held[-1].write(bytes(1 << 20))
    held[-1].flush()
time.sleep(1000)
"""
    ran = await place.python(script, bounds=bounded(disk_mb=4))
    assert ran.exit.stop is Stop.DISK


async def test_one_file_cannot_grow_beyond_the_bound(place, bounded):
    await place.shell("head -c 9000000 /dev/zero > /edit/file", bounds=bounded(disk_mb=2))
    assert (place.edit / "file").stat().st_size == 2 << 20


async def test_a_tree_too_deep_to_measure_counts_as_too_large(place, bounded):
    script = """
import os, time
os.chdir("/edit")
for _ in range(300):
    os.mkdir("d")
    os.chdir("d")
time.sleep(1000)
"""
    ran = await place.python(script, bounds=bounded(disk_mb=1024))
    assert ran.exit.stop is Stop.DISK


async def test_links_are_not_followed_while_disk_is_measured(place, bounded):
    script = "ln -s / /edit/root; ln -s /edit /edit/again; sleep 1"
    ran = await place.shell(script, bounds=bounded(disk_mb=1))
    assert ran.exit.stop is None


async def test_no_core_is_dumped(place):
    ran = await place.shell("ulimit -c; ulimit -Hc")
    assert ran.out == "0\n0\n"


async def test_the_trial_goes_first_when_memory_is_short(place):
    ran = await place.shell("cat /proc/self/oom_score_adj")
    assert int(ran.out) >= 500
