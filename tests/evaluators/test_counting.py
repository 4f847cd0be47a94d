"""Instructions are counted in the real sandbox; what is not counted is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import loopty_sdk
from loopty.domain.benchmark import Benchmark
from loopty.domain.counting import CLOCK, PROGRAMS, REPORTED_SCORE
from loopty.domain.ids import NodeId
from loopty.domain.launch import Mount
from loopty.domain.objective import Direction
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators.command import CommandEvaluator
from loopty.evaluators.contract import SandboxPaths
from loopty.evaluators.counting import CountLog
from loopty.kit.records import replace
from loopty.record.node_record import Node
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.toolchain import user_toolchain

from ..needs import needs
from .test_command import LIMITS, Place, never

START = b"==7== Cachegrind, a cache and branch-prediction profiler\n"
COUNT = b"==7== I   refs:      1,234,567\n"
PATHS = SandboxPaths("/t/tree", "/t/benchmark", "/t/in", "/t/out", "/t/candidate", "/t/sdk/loopty_sdk")


def log_of(*lines: bytes) -> CountLog:
    log = CountLog()
    for line in lines:
        log.add(line)
    return log


def test_the_counts_of_all_processes_are_summed() -> None:
    log = log_of(START[:9], START[9:] + COUNT, COUNT.replace(b"7==", b"8=="))
    assert log.instructions == 2 * 1_234_567
    assert log.programs == 1
    assert not log.fault(1)


def test_a_count_that_may_be_wrong_is_refused() -> None:
    assert log_of().fault(None) == "no process was counted"
    assert "ended without a count" in log_of(START, START.replace(b"7", b"8"), COUNT).fault(None)
    assert log_of(START, COUNT, COUNT).fault(None) == "a process was counted twice"
    assert "starts 2 programs, and the baseline 1" in log_of(START, START, COUNT).fault(1)
    assert not log_of(START, START, COUNT).fault(None), "the baseline itself may"
    assert "too long" in log_of(START, b"x" * (17 << 20), COUNT).fault(None)


class Counted:
    """Trials of a counted benchmark, each in new folders."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs = 0

    async def run(self, command: str, pool: Pool = Pool.ATTEMPT, baseline: Outcome | None = None) -> Outcome:
        self._runs += 1
        root = self._root / str(self._runs)
        root.mkdir()
        place, tools = Place(root), user_toolchain()
        sdk = Mount(Path(loopty_sdk.__file__).resolve().parent, PATHS.sdk)

        @contextmanager
        def stage(trial: Trial) -> Iterator[Stage]:
            with place.stage(trial) as made:
                yield replace(made, mounts=(*made.mounts, sdk))

        evaluator = CommandEvaluator(
            Benchmark(command, 60.0, measure="instructions"),
            LIMITS,
            Bubblewrap(),
            stage,
            lambda _: None,
            PATHS,
            env={"PATH": tools.path, "PYTHONPATH": "/t/sdk"},
            mounts=[Mount(prefix, str(prefix)) for prefix in tools.prefixes],
        )
        node = Node(NodeId("1.2"), Pool.ATTEMPT, "o", "", "commit", "tree", 0.0, order=1, position=0)
        trial = Trial(node, replace(node, outcome=baseline), 3, pool, 7)
        return await evaluator.evaluate(trial, never, asyncio.Event())


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path.resolve())


LOOP = "i=0; while [ $i -lt {} ]; do i=$((i + 1)); done"


@needs("bwrap")
@needs("valgrind")
async def test_two_runs_of_the_same_command_count_the_same_and_one_percent_more_is_seen(counted: Counted) -> None:
    one, two, more = [await counted.run(LOOP.format(rounds)) for rounds in (1000, 1000, 1010)]
    assert one.is_finished, one.reason
    assert one.metrics["score"] == two.metrics["score"]
    assert one.directions["score"] is Direction.MIN
    work = one.metrics["score"] - (await counted.run("i=0")).metrics["score"]
    assert 1.009 < (more.metrics["score"] - one.metrics["score"]) / work + 1 < 1.011


@needs("bwrap")
@needs("valgrind")
async def test_children_are_counted_and_what_the_benchmark_reports_stays_beside(counted: Counted) -> None:
    report = """; echo '{"score": 0.5, "size": 3}' > $EVO_RESULT_PATH"""
    alone, child = await counted.run("true"), await counted.run(f"/bin/sh -c '{LOOP.format(500)}'{report}")
    assert child.metrics["score"] > 1.2 * alone.metrics["score"]
    assert child.metrics[PROGRAMS] == alone.metrics[PROGRAMS] + 1
    assert (child.metrics[REPORTED_SCORE], child.metrics["size"]) == (0.5, 3)


@needs("bwrap")
@needs("valgrind")
async def test_a_command_that_times_itself_is_counted_from_there_on(counted: Counted) -> None:
    line = f"{LOOP.format(4000)}; exec python3 -m loopty_sdk.cpu_time true"
    outcome = await counted.run(line)
    assert outcome.metrics["score"] < 1_000_000
    assert REPORTED_SCORE not in outcome.metrics


@needs("bwrap")
@needs("valgrind")
async def test_a_trial_whose_count_may_be_wrong_has_no_score(counted: Counted) -> None:
    killed = await counted.run("sh -c 'sleep 9; true' & sleep 1; kill -9 $!; wait; true")
    assert killed.ending is Ending.FAILED
    assert killed.reason.endswith("processes ended without a count, as if killed")
    baseline = await counted.run("true")
    hidden = await counted.run(f"{LOOP.format(100)}; exec /bin/true", baseline=baseline)
    assert hidden.reason.startswith("not counted: it starts 2 programs, and the baseline 1")
    forged = await counted.run('echo "==$$== I   refs:      1" > /loopty/count')
    assert forged.reason == "not counted: a process was counted twice"


@needs("bwrap")
@needs("valgrind")
async def test_the_log_of_the_counter_can_be_neither_read_nor_replaced(counted: Counted) -> None:
    tries = "cat /loopty/count", "rm -f /loopty/count", "chmod 666 /loopty/count", "mv /loopty/count /loopty/c"
    for attempt in tries:
        assert (await counted.run(f"timeout 3 {attempt} && exit 9; true")).ending is Ending.FINISHED, attempt


@needs("bwrap")
async def test_a_confirmation_is_by_the_clock(counted: Counted) -> None:
    work = "python3 -c 'sum(range(3_000_000))'"
    outcome = await counted.run(work, Pool.CONFIRM)
    assert outcome.is_finished, outcome.reason
    assert 0.01 < outcome.metrics[CLOCK] < 60
    assert "score" not in outcome.metrics
    timed = await counted.run(f"python3 -m loopty_sdk.cpu_time {work}", Pool.CONFIRM)
    assert 0.01 < timed.metrics[CLOCK] < 60
