"""What a trial may use, and what becomes of one that takes more."""

from __future__ import annotations

import asyncio
import signal

from loopty.domain.launch import Stop
from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.cgroup import Cgroup


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
    # The shell that waits must not fork: one that cannot ends at once, and the trial would end by itself.
    script = "bomb() { bomb | bomb & }; bomb; : forkbomb-token; while :; do :; done"
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


# The first thread of a process leaves, and its place in /proc tells no more of the others.
HEADLESS = """
import ctypes, os, platform, threading, time
def leave():
    exit_thread = {"x86_64": 60, "aarch64": 93}[platform.machine()]
    ctypes.CDLL(None).syscall(exit_thread, 0)
"""


async def test_memory_of_a_process_whose_first_thread_has_left_counts(place, bounded, monkeypatch):
    # The watcher alone has to see it.
    monkeypatch.setattr(Cgroup, "made", lambda _: None)
    script = f"""{HEADLESS}
def take():
    taken = b"x" * (100 << 20)
    time.sleep(1000)
threading.Thread(target=take).start()
leave()
"""
    ran = await place.python(script, bounds=bounded(memory_mb=60, seconds=30))
    assert ran.exit.stop is Stop.MEMORY


async def test_files_that_only_another_thread_has_open_count(place, bounded):
    script = f"""{HEADLESS}
def take():
    held = [os.open(f"/edit/{{number}}", os.O_CREAT | os.O_WRONLY) for number in range(8)]
    for number, file in enumerate(held):
        os.unlink(f"/edit/{{number}}")
        os.write(file, os.urandom(1 << 20))
    time.sleep(1000)
threading.Thread(target=take).start()
leave()
"""
    ran = await place.python(script, bounds=bounded(disk_mb=4, seconds=30))
    assert ran.exit.stop is Stop.DISK


async def test_files_that_are_only_mapped_count(place, bounded):
    script = """
import mmap, os, time
held = []
for number in range(8):
    file = os.open("/edit/file", os.O_CREAT | os.O_RDWR)
    os.unlink("/edit/file")
    os.write(file, os.urandom(1 << 20))
    held.append(mmap.mmap(file, 4096, prot=mmap.PROT_READ))
    os.close(file)
# Python's mapping keeps a descriptor of its own.
os.closerange(3, 64)
time.sleep(1000)
"""
    ran = await place.python(script, bounds=bounded(disk_mb=4, seconds=30))
    assert ran.exit.stop is Stop.DISK


async def test_a_small_file_without_a_name_may_be_mapped_and_files_may_be_sent(place, bounded):
    script = """
import mmap, os, socket, time
file = os.open("/edit/file", os.O_CREAT | os.O_RDWR)
os.unlink("/edit/file")
os.write(file, bytes(1 << 16))
held = mmap.mmap(file, 1 << 16)
ours, theirs = socket.socketpair()
for _ in range(3):
    socket.send_fds(ours, [b"x"], [file])
    time.sleep(0.5)
    os.close(socket.recv_fds(theirs, 1, 1)[1][0])
    time.sleep(0.5)
"""
    ran = await place.python(script, bounds=bounded(disk_mb=4))
    assert (ran.exit.stop, ran.exit.code) == (None, 0), ran.err


async def test_files_that_nobody_receives_are_too_much(place, bounded):
    script = """
import os, socket, time
ours, theirs = socket.socketpair()
file = os.open("/edit/file", os.O_CREAT | os.O_RDWR)
os.unlink("/edit/file")
socket.send_fds(ours, [b"x"], [file])
os.close(file)
time.sleep(1000)
"""
    ran = await place.python(script, bounds=bounded(disk_mb=4, seconds=30))
    assert ran.exit.stop is Stop.DISK
