"""What the watcher counts as memory and disk of a trial, here under bubblewrap."""

from __future__ import annotations

import os

from loopty.domain.launch import Stop
from loopty.sandboxes.cgroup import Cgroup
from loopty.sandboxes.resource_usage import threads_of_tree
from loopty.sandboxes.supervise import SignalFreezer
from loopty.testing.sandbox_harness import bounds_with


def test_the_number_of_a_dead_process_stops_nobody(monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda *signal: sent.append(signal))
    freezer = SignalFreezer(lambda: threads_of_tree(-1))  # as the kernel tells it of a pidfd
    freezer.freeze()
    freezer.thaw()
    assert not sent


async def test_memory_shared_by_forking_counts_once(harness):
    script = """
import os, time
ours = b"x" * (100 << 20)
for _ in range(6):
    if os.fork() == 0:
        break
time.sleep(1)
"""
    result = await harness.python(script, bounds=bounds_with(memory_mb=250))
    assert result.exit.stop is None
    assert result.exit.code == 0


async def test_files_in_memory_count_as_memory(harness):
    script = "head -c 60000000 /dev/zero > /tmp/a; head -c 60000000 /dev/zero > /dev/shm/b; sleep 1000"
    result = await harness.shell(script, bounds=bounds_with(memory_mb=100, disk_mb=64))
    assert result.exit.stop is Stop.MEMORY


async def test_empty_files_in_memory_count_as_memory(harness):
    script = """
import time
for number in range(50_000):
    open(f"/tmp/{number}", "w").close()
time.sleep(1000)
"""
    result = await harness.python(script, bounds=bounds_with(memory_mb=40))
    assert result.exit.stop is Stop.MEMORY


async def test_disk_is_bounded_over_empty_files(harness):
    script = """
import os, time
for number in range(600):
    os.mkdir(f"/edit/{number}")
time.sleep(1000)
"""
    result = await harness.python(script, bounds=bounds_with(disk_mb=2))
    assert result.exit.stop is Stop.DISK


async def test_disk_is_bounded_over_deleted_files(harness):
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
    result = await harness.python(script, bounds=bounds_with(disk_mb=4))
    assert result.exit.stop is Stop.DISK


async def test_a_tree_too_deep_to_measure_counts_as_too_large(harness):
    script = """
import os, time
os.chdir("/edit")
for _ in range(300):
    os.mkdir("d")
    os.chdir("d")
time.sleep(1000)
"""
    result = await harness.python(script, bounds=bounds_with(disk_mb=1024))
    assert result.exit.stop is Stop.DISK


async def test_links_are_not_followed_while_disk_is_measured(harness):
    script = "ln -s / /edit/root; ln -s /edit /edit/again; sleep 1"
    result = await harness.shell(script, bounds=bounds_with(disk_mb=1))
    assert result.exit.stop is None


# The first thread of a process exits, and its directory in /proc no longer shows what the others use.
EXIT_FIRST_THREAD = """
import ctypes, os, platform, threading, time
def exit_first_thread():
    exit_thread = {"x86_64": 60, "aarch64": 93}[platform.machine()]
    ctypes.CDLL(None).syscall(exit_thread, 0)
"""


async def test_memory_of_a_process_whose_first_thread_has_exited_counts(harness, monkeypatch):
    # Without a cgroup only the watcher can see it.
    monkeypatch.setattr(Cgroup, "create", lambda _: None)
    script = f"""{EXIT_FIRST_THREAD}
def take():
    taken = b"x" * (100 << 20)
    time.sleep(1000)
threading.Thread(target=take).start()
exit_first_thread()
"""
    result = await harness.python(script, bounds=bounds_with(memory_mb=60, seconds=30))
    assert result.exit.stop is Stop.MEMORY


async def test_files_that_only_another_thread_has_open_count(harness):
    script = f"""{EXIT_FIRST_THREAD}
def take():
    held = [os.open(f"/edit/{{number}}", os.O_CREAT | os.O_WRONLY) for number in range(8)]
    for number, file in enumerate(held):
        os.unlink(f"/edit/{{number}}")
        os.write(file, os.urandom(1 << 20))
    time.sleep(1000)
threading.Thread(target=take).start()
exit_first_thread()
"""
    result = await harness.python(script, bounds=bounds_with(disk_mb=4, seconds=30))
    assert result.exit.stop is Stop.DISK


async def test_files_that_are_only_mapped_count(harness):
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
    result = await harness.python(script, bounds=bounds_with(disk_mb=4, seconds=30))
    assert result.exit.stop is Stop.DISK


async def test_a_small_deleted_file_may_be_mapped_and_sent(harness):
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
    result = await harness.python(script, bounds=bounds_with(disk_mb=4))
    assert (result.exit.stop, result.exit.code) == (None, 0), result.err


async def test_files_that_stay_in_transit_count_as_too_much(harness):
    script = """
import os, socket, time
ours, theirs = socket.socketpair()
file = os.open("/edit/file", os.O_CREAT | os.O_RDWR)
os.unlink("/edit/file")
socket.send_fds(ours, [b"x"], [file])
os.close(file)
time.sleep(1000)
"""
    result = await harness.python(script, bounds=bounds_with(disk_mb=4, seconds=30))
    assert result.exit.stop is Stop.DISK
