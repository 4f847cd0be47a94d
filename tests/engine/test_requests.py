"""What people ask of a running session from other processes: pause, resume, stop, another budget."""

import asyncio

from loopty.domain.trial import Pool
from loopty.engine.budget import session_seconds
from loopty.record.sessions import (
    BudgetChanged,
    RunPaused,
    RunResumed,
    Session,
    SessionEnded,
    SessionStarted,
    StopRequested,
)
from loopty.record.trials import TrialCounts, Trials


def x_of(trial):
    return trial.node.params["x"]


def request(run, *events):
    run.recorder.record(lambda _: events)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - other tasks change what it looks at
            await asyncio.sleep(0.02)


async def test_a_paused_session_starts_nothing_until_it_is_resumed(bench):
    run = bench(x_of)
    request(run, RunPaused(1, "lunch"))
    session = asyncio.create_task(run.drive())
    await until(lambda: Session.of(run.run).driver)
    await asyncio.sleep(0.1)
    assert not session.done()
    assert TrialCounts.of(run.run, Pool.ATTEMPT).endings == {}
    request(run, RunResumed(1))
    finish = await asyncio.wait_for(session, 60)
    assert "20 attempt trials" in finish.reason


async def test_a_pause_in_the_middle_lets_the_trial_end_and_starts_no_other(bench):
    def score(trial):
        if trial.node.order == 5 and not Session.of(run.run).is_paused:
            request(run, RunPaused(1))
        return x_of(trial)

    run = bench(score)
    session = asyncio.create_task(run.drive())
    await until(lambda: Session.of(run.run).is_paused and not Trials.of(run.run).running)
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 4
    request(run, RunResumed(1))
    assert (await asyncio.wait_for(session, 60)).sound
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 20


async def test_the_time_of_a_pause_does_not_count(bench):
    run = bench(x_of)
    request(run, SessionStarted(1, "me"))
    request(run, RunPaused(1))
    before = Session.of(run.run).seconds
    for _ in range(500):
        next(run.ticks)
    assert session_seconds(run.run, next(run.ticks) / 100) == before
    request(run, RunResumed(1))
    request(run, SessionEnded(1, "done"))
    assert Session.of(run.run).seconds < before + 1


async def test_a_stop_request_ends_the_session_and_not_the_next_one(bench):
    run = bench(x_of)
    request(run, RunPaused(1))
    session = asyncio.create_task(run.drive())
    await until(lambda: Session.of(run.run).driver)
    request(run, StopRequested(1, "stopped on request: enough"))
    finish = await asyncio.wait_for(session, 60)
    assert finish.reason == "stopped on request: enough"
    assert Session.of(run.run).stop_request == ""
    assert Session.of(run.run).is_paused


async def test_a_changed_budget_counts_instead_of_the_task_files(bench):
    run = bench(x_of)
    request(run, BudgetChanged(1, {"attempts": 3.0}))
    finish = await run.drive()
    assert "all 3 attempt trials" in finish.reason
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 3
