"""Slots that processes share: no more trials at once than the width, in the order in which they came."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from loopty.executors.local_slots import SharedSlots
from loopty.kit.safe_folder import SafeFolder

SCRIPT = """
import asyncio, os, sys
from pathlib import Path
from loopty.executors.local_slots import SharedSlots
from loopty.kit.safe_folder import SafeFolder

folder, width, count, seconds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])

def say(text):
    print(text, flush=True)

async def trial(slots):
    async with slots.hold(asyncio.Event()):
        os.write(log, b"in\\n")
        await asyncio.sleep(seconds)
        os.write(log, b"out\\n")

async def main():
    slots = SharedSlots(SafeFolder(folder, ("slots",)), width, say)
    await asyncio.gather(*(trial(slots) for _ in range(count)))

log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
asyncio.run(main())
"""


def start(folder: Path, width: int, count: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(folder), str(width), str(count), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end(worker: subprocess.Popen[str]) -> int:
    worker.communicate(timeout=60)
    return worker.returncode


def most_at_once(folder: Path) -> int:
    running = peak = 0
    for word in (folder / "log").read_text().split():
        running += 1 if word == "in" else -1
        peak = max(peak, running)
    return peak


def log_line(folder: Path) -> None:
    """Wait until a process has written to the log."""
    while not (folder / "log").exists() or not (folder / "log").read_text():
        pass


def test_four_processes_with_one_slot_never_overlap(tmp_path: Path) -> None:
    workers = [start(tmp_path, width=1, count=5, seconds=0.01) for _ in range(4)]
    assert [end(worker) for worker in workers] == [0, 0, 0, 0]
    assert (tmp_path / "log").read_text().split() == ["in", "out"] * 20
    assert SafeFolder(tmp_path, ("slots", "queue")).names() == []


def test_four_processes_with_two_slots_run_two_at_once(tmp_path: Path) -> None:
    workers = [start(tmp_path, width=2, count=3, seconds=0.05) for _ in range(4)]
    assert [end(worker) for worker in workers] == [0, 0, 0, 0]
    assert most_at_once(tmp_path) == 2


def test_a_killed_process_frees_its_slot_and_its_ticket(tmp_path: Path) -> None:
    holder = start(tmp_path, width=1, count=2, seconds=1000)  # holds the slot, and waits with a ticket
    log_line(tmp_path)
    while not SafeFolder(tmp_path, ("slots", "queue")).names():
        pass
    holder.kill()
    holder.communicate()
    assert end(start(tmp_path, width=1, count=1, seconds=0)) == 0


def test_a_process_that_waits_says_what_for(tmp_path: Path) -> None:
    holder = start(tmp_path, width=1, count=1, seconds=1000)
    log_line(tmp_path)
    waiter = start(tmp_path, width=1, count=1, seconds=0)
    assert waiter.stdout
    expected = f"waiting for a slot: width = 1, and a trial of process {holder.pid} is running\n"
    assert waiter.stdout.readline() == expected
    holder.kill()
    holder.communicate()
    assert end(waiter) == 0


async def test_slots_are_given_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    everyone = [SharedSlots(SafeFolder(tmp_path), 1) for _ in range(5)]
    order: list[int] = []

    async def take(number: int) -> None:
        async with everyone[number].hold(asyncio.Event()):
            order.append(number)
            await asyncio.sleep(0.001)

    async with everyone[0].hold(asyncio.Event()):
        waiting = [asyncio.create_task(take(number)) for number in (3, 1, 4, 2)]
        while len(SafeFolder(tmp_path, ("queue",)).names()) < 4:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert order == [3, 1, 4, 2]


async def test_a_wait_that_is_cancelled_leaves_no_ticket(tmp_path: Path) -> None:
    first, second = (SharedSlots(SafeFolder(tmp_path), 1) for _ in range(2))
    cancel = asyncio.Event()
    async with first.hold(asyncio.Event()):
        cancel.set()
        async with second.hold(cancel) as is_held:
            assert not is_held
    assert SafeFolder(tmp_path, ("queue",)).names() == []


async def test_garbage_in_the_queue_holds_up_nobody(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    queue.mkdir()
    (queue / "000").write_bytes(b"\xff")
    (queue / ".new-soon").write_text("")
    (queue / ".new-00000000000000000001-1-0").write_text("")
    async with SharedSlots(SafeFolder(tmp_path), 1).hold(asyncio.Event()) as is_held:
        assert is_held
    assert list(queue.iterdir()) == []
