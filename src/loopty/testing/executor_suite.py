"""Tests that every executor must pass: subclass ExecutorConformance and give it a `make` fixture."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from loopty.domain.access import ObjectName
from loopty.domain.benchmark import Gate
from loopty.domain.errors import LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.launch import SandboxError
from loopty.domain.objective import Directions
from loopty.domain.trial import Ending, Outcome, Pool, Row
from loopty.engine.protocols import Executor, OnMetrics, Trial
from loopty.record.node_record import Node
from loopty.testing.fakes import outcome_of_score

Evaluate = Callable[[Trial, OnMetrics, asyncio.Event], Awaitable[Outcome]]
MakeExecutor = Callable[[Evaluate, int], AbstractAsyncContextManager[Executor]]
"""An executor with this many slots, whose trials are calls of this function."""

_OBJECT = ObjectName("c0" * 20)
_ROOT = Node(
    id=NodeId("1"),
    pool=Pool.ATTEMPT,
    operator="baseline",
    summary="",
    commit=_OBJECT,
    tree=_OBJECT,
    added_at=0.0,
    order=1,
    position=0,
)
WAIT_SECONDS = 60


def trial_of(number: int, x: float = 0.0, cohort: str = "", pool: Pool = Pool.ATTEMPT) -> Trial:
    """Make a trial of the node `1.NUMBER`, whose parameter is `x`."""
    node = Node(
        id=NodeId(f"1.{number}"),
        pool=pool,
        operator="hand",
        summary="",
        commit=_OBJECT,
        tree=_OBJECT,
        added_at=0.0,
        order=number,
        position=0,
        params={"x": x},
    )
    return Trial(node, _ROOT, 1, pool, 7, (Gate("small", metric="score", maximum=9.0),), cohort=cohort)


def never_prune(_rows: Sequence[Row], _directions: Directions) -> str | None:
    return None


async def score_x(trial: Trial, _on_metrics: OnMetrics, _cancel: asyncio.Event) -> Outcome:
    """Return the trial's parameter as its score."""
    return outcome_of_score(float(trial.node.params["x"]))


async def run_until_cancelled(_trial: Trial, _on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
    await cancel.wait()
    return Outcome(Ending.CANCELLED, reason="stopped on request")


class ExecutorConformance:
    """What the loop relies on, wherever trials run."""

    async def test_an_outcome_has_the_fingerprint_of_its_machine(self, make: MakeExecutor) -> None:
        async with make(score_x, 1) as executor:
            outcome = await executor.execute(trial_of(1, 3.0), never_prune, asyncio.Event())
            assert outcome.metrics == {"score": 3.0}
            assert outcome.fingerprint == executor.machine.fingerprint

    async def test_a_trial_arrives_as_it_was_sent(self, make: MakeExecutor) -> None:
        seen: list[Trial] = []

        async def evaluate(trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
            seen.append(trial)
            return await score_x(trial, on_metrics, cancel)

        sent = trial_of(2, 0.25)
        async with make(evaluate, 1) as executor:
            await executor.execute(sent, never_prune, asyncio.Event())
        (got,) = seen
        assert (got.node.id, got.node.params, got.number, got.pool) == (
            sent.node.id,
            sent.node.params,
            1,
            sent.pool,
        )
        assert (got.seed, got.gates, got.token, got.root.id) == (sent.seed, sent.gates, sent.token, sent.root.id)

    async def test_as_many_trials_run_as_there_are_slots(self, make: MakeExecutor) -> None:
        running, peak = 0, 0
        both = asyncio.Event()

        async def evaluate(trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
            nonlocal running, peak
            running, peak = running + 1, max(peak, running + 1)
            if running == 2:
                both.set()
            await asyncio.wait_for(both.wait(), WAIT_SECONDS)
            running -= 1
            return await score_x(trial, on_metrics, cancel)

        async with make(evaluate, 2) as executor:
            assert executor.width == 2
            trials = (executor.execute(trial_of(n), never_prune, asyncio.Event()) for n in range(1, 7))
            outcomes = await asyncio.wait_for(asyncio.gather(*trials), WAIT_SECONDS)
        assert peak == 2
        assert all(outcome.is_finished for outcome in outcomes)

    async def test_cancel_ends_a_running_trial_and_one_that_waits(self, make: MakeExecutor) -> None:
        started, cancel = asyncio.Event(), asyncio.Event()

        async def evaluate(trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
            started.set()
            return await run_until_cancelled(trial, on_metrics, cancel)

        async with make(evaluate, 1) as executor:
            trials = [asyncio.create_task(executor.execute(trial_of(n), never_prune, cancel)) for n in (1, 2)]
            await asyncio.wait_for(started.wait(), WAIT_SECONDS)
            cancel.set()
            outcomes = await asyncio.wait_for(asyncio.gather(*trials), WAIT_SECONDS)
            assert {outcome.ending for outcome in outcomes} == {Ending.CANCELLED}
            outcome = asyncio.create_task(executor.execute(trial_of(3), never_prune, asyncio.Event()))
            await asyncio.sleep(0)
            assert not outcome.done()  # the executor is of use after a cancel
            outcome.cancel()

    async def test_the_watch_sees_metrics_and_stops_the_trial(self, make: MakeExecutor) -> None:
        async def evaluate(_trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
            rows: list[Row] = []
            while not (reason := on_metrics(rows, {})) and not cancel.is_set():
                rows.append(Row(len(rows) + 1.0, {"score": float(len(rows))}))
                await asyncio.sleep(0.001)
            return Outcome(Ending.PRUNED, rows[-1].metrics, reason=reason or "", step=rows[-1].step)

        def stop_at_three(rows: Sequence[Row], _directions: Directions) -> str | None:
            return "three are enough" if len(rows) >= 3 else None

        async with make(evaluate, 1) as executor:
            run = executor.execute(trial_of(1), stop_at_three, asyncio.Event())
            outcome = await asyncio.wait_for(run, WAIT_SECONDS)
        assert (outcome.ending, outcome.reason) == (Ending.PRUNED, "three are enough")
        assert outcome.step is not None
        assert outcome.step >= 3

    async def test_a_trial_may_run_again(self, make: MakeExecutor) -> None:
        async with make(score_x, 1) as executor:
            first, second = [
                await executor.execute(trial_of(1, 2.0), never_prune, asyncio.Event()) for _ in range(2)
            ]
        assert first.metrics == second.metrics

    async def test_a_failure_of_the_machine_is_no_outcome(self, make: MakeExecutor) -> None:
        async def evaluate(_trial: Trial, _on_metrics: OnMetrics, _cancel: asyncio.Event) -> Outcome:
            raise SandboxError("no space left on the device")

        async with make(evaluate, 1) as executor:
            with pytest.raises(LooptyError, match="no space left"):
                await executor.execute(trial_of(1), never_prune, asyncio.Event())
