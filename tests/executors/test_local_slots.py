"""Slots and resources: no more trials at once than there are slots, even across processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending, Machine, Outcome, Pool
from loopty.engine.protocols import OnMetrics, Trial
from loopty.executors.local_slots import LocalExecutor, SharedSlots, lock_path
from loopty.executors.process_locks import ProcessLocks
from loopty.kit.safe_folder import SafeFolder
from loopty.record.node_record import Node

NODE = Node(NodeId("1"), Pool.ATTEMPT, "baseline", "", "commit", "tree", 0.0, order=1, position=0)
TRIAL = Trial(NODE, NODE, 1, Pool.ATTEMPT, 0)
SCRIPT = """
import asyncio, os, sys, time
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_local_slots import TRIAL
from loopty.domain.trial import Ending, Outcome
from loopty.domain.trial import Machine
from loopty.executors.local_slots import LocalExecutor
from loopty.executors.local_slots import SharedSlots
from loopty.kit.safe_folder import SafeFolder

async def evaluate(trial, on_metrics, cancel):
    with open(sys.argv[2], "a") as log:
        print("in", file=log, flush=True)
        await asyncio.sleep(0.02)
        print("out", file=log, flush=True)
    return Outcome(Ending.FINISHED)

async def main():
    slots = SharedSlots(SafeFolder(Path(sys.argv[2]).parent, ("slots-" + str(os.getpid()),)), 4)
    executor = LocalExecutor(evaluate, slots, [sys.argv[1], "another-" + sys.argv[1]], Machine({}))
    await asyncio.gather(*(executor.execute(TRIAL, lambda *_: None, asyncio.Event()) for _ in range(6)))

asyncio.run(main())
"""


@pytest.fixture
def resource() -> str:
    return f"test-{uuid.uuid4()}"


def test_trials_of_two_processes_that_name_one_resource_take_turns(resource: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", SCRIPT, resource, str(log), str(Path(__file__).parent)]
    workers = [subprocess.Popen(command) for _ in range(2)]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    assert log.read_text().split() == ["in", "out"] * 12


async def test_no_more_trials_run_than_there_are_slots(tmp_path: Path) -> None:
    running, peak = 0, 0

    async def evaluate(_trial: Trial, _on_metrics: OnMetrics, _cancel: asyncio.Event) -> Outcome:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.01)
        running -= 1
        return Outcome(Ending.FINISHED)

    executor = LocalExecutor(evaluate, SharedSlots(SafeFolder(tmp_path), 3), [], Machine({}))
    await asyncio.gather(*(executor.execute(TRIAL, lambda *_: None, asyncio.Event()) for _ in range(10)))
    assert peak == 3


async def test_a_trial_that_is_cancelled_while_it_waits_never_starts(resource: str, tmp_path: Path) -> None:
    started: list[str] = []
    release = asyncio.Event()

    async def evaluate(_trial: Trial, _on_metrics: OnMetrics, _cancel: asyncio.Event) -> Outcome:
        started.append("trial")
        await release.wait()
        return Outcome(Ending.FINISHED)

    executor = LocalExecutor(evaluate, SharedSlots(SafeFolder(tmp_path), 2), [resource], Machine({}))
    cancel = asyncio.Event()
    first = asyncio.create_task(executor.execute(TRIAL, lambda *_: None, asyncio.Event()))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(executor.execute(TRIAL, lambda *_: None, cancel))
    await asyncio.sleep(0.01)
    cancel.set()
    outcome = await second
    assert (outcome.ending, outcome.reason) == (Ending.CANCELLED, f"stopped while waiting for {resource}")
    release.set()
    assert (await first).is_finished
    assert started == ["trial"]


async def test_a_resource_is_free_again_after_a_trial_that_raised(resource: str, tmp_path: Path) -> None:
    async def broken(_trial: Trial, _on_metrics: OnMetrics, _cancel: asyncio.Event) -> Outcome:
        raise RuntimeError("the sandbox failed")

    executor = LocalExecutor(broken, SharedSlots(SafeFolder(tmp_path), 1), [resource], Machine({}))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await executor.execute(TRIAL, lambda *_: None, asyncio.Event())


def test_a_lock_is_freed_with_the_process_that_held_it(resource: str) -> None:
    script = (
        "import fcntl, os, sys\nf = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\nfcntl.flock(f, fcntl.LOCK_EX)"
    )
    held = f"{script}\nprint('held', flush=True)\nsys.stdin.read()"
    path = str(lock_path(resource))
    holder = subprocess.Popen(
        [sys.executable, "-c", held, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.wait()
    subprocess.run([sys.executable, "-c", script, path], check=True, timeout=60)
    holder.stdin.close()
    holder.stdout.close()


@pytest.mark.parametrize("squat", ["link", "file", "folder of another user"])
def test_whoever_takes_the_name_of_the_lock_folder_stops_nobody(
    squat: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    usual = tmp_path / "tmp" / f"loopty-{os.getuid()}"
    usual.parent.mkdir()
    if squat == "link":
        usual.symlink_to(tmp_path)
    elif squat == "file":
        usual.touch()
    elif os.geteuid():
        pytest.skip("only root can make a folder of another user")
    else:
        usual.mkdir()
        os.chown(usual, 12345, 12345)
    path = lock_path("gpu")
    path.touch()
    assert path.is_relative_to(tmp_path / "cache/loopty")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    with pytest.raises(Misuse, match="name another folder for temporary files in TMPDIR"):
        lock_path("gpu")


def test_any_name_makes_a_lock_of_its_own() -> None:
    names = ["gpu", "GPU", "gpu:0", "../../etc/passwd", "a/b", "ü" * 300, ""]
    paths = {lock_path(name) for name in names}
    assert len(paths) == len(names)
    assert len({path.parent for path in paths}) == 1


def test_this_process_is_alive_and_a_dead_one_is_not(tmp_path: Path) -> None:
    locks = ProcessLocks(SafeFolder(tmp_path))
    assert locks.is_alive(locks.claim())
    script = (
        "import os, sys; from pathlib import Path; from loopty.executors.process_locks import ProcessLocks\n"
        "from loopty.kit.safe_folder import SafeFolder\n"
        "print(ProcessLocks(SafeFolder(Path(sys.argv[1]))).claim(), flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True)
    name = killed.stdout.strip()
    assert not locks.is_alive(name)
    assert not locks.is_alive(name), "also when it is asked again"


def test_a_living_process_is_alive_under_any_host_name(tmp_path: Path) -> None:
    name = ProcessLocks(SafeFolder(tmp_path)).claim()
    renamed = f"another-name:1:{name.rpartition(':')[2]}"
    script = (
        "import sys; from pathlib import Path; from loopty.executors.process_locks import ProcessLocks\n"
        "from loopty.kit.safe_folder import SafeFolder\n"
        "print(ProcessLocks(SafeFolder(Path(sys.argv[1]))).is_alive(sys.argv[2]))"
    )
    result = subprocess.run([sys.executable, "-c", script, tmp_path, renamed], capture_output=True, text=True)
    assert result.stdout.strip() == "True"
