"""Between calls nothing of the candidate runs, so it cannot slow down what the benchmark measures meanwhile."""

from __future__ import annotations

import asyncio
from textwrap import indent
from typing import Any

import pytest

from loopty.domain.launch import Exit, Freezer, Launch
from loopty.domain.trial import NOT_FROZEN, Integrity
from loopty.kit.records import replace
from loopty.sandboxes import cgroup
from loopty.sandboxes.bubblewrap.sandbox import Bubblewrap
from loopty.sandboxes.cgroup import Cgroup
from loopty.sandboxes.landlock.sandbox import Landlock
from loopty.testing.sandbox_suite import START_SPINNERS

SECONDS = 0.6
REFERENCE = f"""
import time
from loopty_sdk import Run, candidate
run = Run()
with candidate("program.py:solve", seconds=10) as solve:
    for number in range(3):
        assert solve(number) == number
        time.sleep({SECONDS})  # here the evaluator would time its reference
run.finish(1)
"""
# They outlive the call that starts them.
SPINNERS = f"def solve(x):\n    if x == 0:\n{indent(START_SPINNERS, ' ' * 8)}    return x\n"
THREAD = """
import threading
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
def solve(x):
    return x
"""


class WithoutFreezer(Bubblewrap):
    """A sandbox that cannot stop processes."""

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        return await super().run(replace(launch, on_start=None), cancel)


class OnlyCounts:
    """Counts CPU, but stops nothing: the defence is off."""

    def __init__(self, freezer: Freezer) -> None:
        self._freezer = freezer
        self.cpu_seconds = freezer.cpu_seconds
        self.counts_ended = freezer.counts_ended

    def freeze(self) -> None:
        pass

    def thaw(self) -> None:
        pass


class WithoutDefence(Bubblewrap):
    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        def on_start(freezer: Freezer) -> None:
            if launch.on_start:
                launch.on_start(OnlyCounts(freezer))

        return await super().run(replace(launch, on_start=on_start if launch.on_start else None), cancel)


@pytest.fixture(params=["cgroup", "signals", "landlock"])
def any_bench(bench: Any, request: Any, monkeypatch: Any) -> Any:
    """Each way to stop a candidate."""
    if request.param == "landlock":
        bench.sandbox = Landlock()
    elif request.param == "signals":
        monkeypatch.setattr(Cgroup, "create_freezer", classmethod(lambda _cls, _outer: None))
    elif cgroup._freezer_parent() is None:
        pytest.skip("no cgroup can be frozen here")
    return bench


@pytest.mark.parametrize("program", [SPINNERS, THREAD], ids=["spinners", "thread"])
async def test_a_candidate_uses_no_cpu_between_calls(any_bench: Any, program: str) -> None:
    outcome = await any_bench.run(REFERENCE, program)
    assert outcome.is_finished, outcome
    assert outcome.integrity is Integrity.STRONG
    assert outcome.outside_cpu_seconds < SECONDS / 4


async def test_without_the_defence_it_uses_cpu_between_calls_and_that_is_recorded(bench: Any) -> None:
    bench.sandbox = WithoutDefence()
    outcome = await bench.run(REFERENCE, SPINNERS)
    assert outcome.is_finished, outcome
    assert outcome.outside_cpu_seconds > SECONDS / 4


# It spins until it is asked, and says whether that took long.
IMPATIENT = f"""
import select, sys, time
started_at = time.monotonic()
while not select.select([sys.stdin], [], [], 0)[0]:
    pass
print("early" if time.monotonic() - started_at > {SECONDS / 4} else "asked", flush=True)
"""
OPEN = f"""
import time
from loopty_sdk import Run, candidate
session = candidate.open(["python3", "program.py"])
time.sleep({2 * SECONDS})  # here the evaluator would time its reference
Run().finish(int(session.exchange(b"x\\n", 6) == b"asked\\n"))
"""


async def test_an_opened_candidate_does_not_run_before_the_first_exchange(any_bench: Any) -> None:
    outcome = await any_bench.run(OPEN, IMPATIENT)
    assert outcome.metrics == {"score": 1.0}, outcome
    assert outcome.integrity is Integrity.STRONG


async def test_without_the_defence_an_opened_candidate_runs_before_the_first_exchange(bench: Any) -> None:
    starts_at_once = OPEN.replace("import Run, candidate", "import Run\nfrom loopty_sdk.sessions import Session")
    starts_at_once = starts_at_once.replace("candidate.open(", "Session(seconds=10, argv=")
    outcome = await bench.run(starts_at_once, IMPATIENT)
    assert outcome.metrics == {"score": 0.0}, outcome


async def test_where_nothing_can_be_stopped_integrity_is_weak_and_says_why(bench: Any) -> None:
    bench.sandbox = WithoutFreezer()
    outcome = await bench.run(REFERENCE, SPINNERS)
    assert outcome.is_finished, outcome
    assert outcome.integrity is Integrity.WEAK
    assert NOT_FROZEN in outcome.unenforced


async def test_a_candidate_that_ends_after_its_answer_is_reported_at_the_next_call(any_bench: Any) -> None:
    outcome = await any_bench.run(
        """
from loopty_sdk import CandidateError, Run, candidate
session = candidate.open(["sh", "-c", "read -r word; echo ok; exit 3"])
assert session.exchange(b"word\\n", 3) == b"ok\\n"
try:
    session.receive(1)
except CandidateError as error:
    assert "exit code 3" in str(error), error
    Run().finish(int(error.kind == "crashed"))
"""
    )
    assert outcome.metrics == {"score": 1.0}, outcome


async def test_several_candidates_are_stopped_apart(any_bench: Any) -> None:
    outcome = await any_bench.run(
        """
from loopty_sdk import Run, candidate
with candidate("program.py:solve", memory_mb=100) as one, candidate("program.py:solve", memory_mb=100) as two:
    Run().finish(sum(one(number) + two(number) for number in range(20)))
""",
        "def solve(x):\n    return x\n",
    )
    assert outcome.metrics == {"score": 380.0}, outcome
