"""How a session ends: nothing new starts, everything is closed, and no loop repeats for ever."""

import asyncio
from collections import Counter

import pytest

from loopty.domain.launch import SandboxError
from loopty.domain.model import Outage
from loopty.domain.proposal import Proposal, Refusal, RungChange
from loopty.domain.task import Pools
from loopty.domain.trial import Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.record.calls import CallReserved, CallSettled, Spend
from loopty.record.sessions import Session, SessionEnded, SessionStalled
from loopty.record.trials import TrialCounts, Trials
from loopty.testing.fakes import object_name


def x_of(trial):
    return trial.node.params["x"]


def point(ask):
    return Proposal("point", ask.root.id, "", {"x": ask.rng.random()})


def events_of(run, *kinds):
    return [recorded.event for recorded in run.ledger.read() if isinstance(recorded.event, kinds)]


class CountingProposer:
    """A proposer whose answer is a function of how often it was asked."""

    name = "counting"

    def __init__(self, answer, width=1):
        self.width = width
        self.times = 0
        self._answer = answer

    async def propose(self, ask):
        self.times += 1
        return await self._answer(self.times, ask)


@pytest.mark.parametrize("width", [1, 3])
async def test_a_session_in_which_every_trial_raises_is_closed(bench, width):
    crowd = asyncio.Event()

    async def pause(trial):
        if trial.node.id.parent:
            if run.executor.max_running == width:
                crowd.set()
            await asyncio.wait_for(crowd.wait(), 60)
            raise SandboxError("no sandbox any more")

    run = bench(x_of, width=width, pause=pause)
    with pytest.raises(SandboxError):
        await run.drive()
    assert [event.reason for event in events_of(run, SessionEnded)] == ["its process failed"]
    assert (Session.of(run.run).driver, Trials.of(run.run).running) == ("", {})


async def test_a_failure_during_an_outage_is_the_reported_reason(bench):
    gone = asyncio.Event()

    async def pause(trial):
        if trial.node.id.parent:
            await asyncio.wait_for(gone.wait(), 60)
            raise SandboxError("no sandbox any more")

    async def answer(times, ask):
        if times == 1:
            return point(ask)
        gone.set()
        raise Outage("gone")

    run = bench(x_of, width=2, pause=pause, proposer=CountingProposer(answer))
    with pytest.raises(SandboxError):
        await run.drive()
    assert [event.reason for event in events_of(run, SessionEnded)] == ["its process failed"]


async def test_a_call_that_a_stop_cancels_is_settled_before_the_session_ends(bench):
    began = asyncio.Event()

    async def answer(_times, ask):
        call = ask.purse.reserve("evolver", 10, 0.1)
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ask.purse.settle(call, 10, 0.1, failure="cancelled")

    run = bench(x_of, width=2, proposer=CountingProposer(answer, width=2))
    loop = run.loop()
    driving = asyncio.create_task(loop.drive())
    await asyncio.wait_for(began.wait(), 60)
    loop.stop("enough")
    await asyncio.wait_for(driving, 60)
    reserved, settled = events_of(run, CallReserved), events_of(run, CallSettled)
    assert [event.call for event in settled] == [event.call for event in reserved]
    assert Spend.of(run.run).reservations == {}
    assert isinstance([*run.ledger.read()][-1].event, SessionEnded)


async def test_no_question_is_asked_after_a_stop_during_the_wait_for_the_pace(bench):
    waiting = asyncio.Event()

    async def pace():
        waiting.set()
        await asyncio.Event().wait()

    async def answer(_times, ask):
        return point(ask)

    run = bench(x_of, proposer=CountingProposer(answer))
    loop = run.loop(pace=pace)
    driving = asyncio.create_task(loop.drive())
    await asyncio.wait_for(waiting.wait(), 60)
    loop.stop("enough")
    await asyncio.wait_for(driving, 60)
    assert run.proposer.times == 0


async def test_no_question_is_asked_after_an_outage_ends_the_session(bench):
    together = asyncio.Event()

    async def answer(times, _ask):
        if times == 3:
            together.set()
        await asyncio.wait_for(together.wait(), 60)
        if times == 1:
            raise Outage("gone")
        for _ in range(20):
            await asyncio.sleep(0)
        return Refusal("counting", "no use")

    run = bench(x_of, width=3, proposer=CountingProposer(answer, width=3))
    finish = await run.drive()
    assert "gone" in finish.reason
    assert run.proposer.times == 3


async def test_no_question_is_asked_after_the_target_is_reached(bench):
    reached = asyncio.Event()

    async def answer(times, ask):
        if times == 1:
            return point(ask)
        await asyncio.wait_for(reached.wait(), 60)
        for _ in range(20):
            await asyncio.sleep(0)
        return Refusal("counting", "no use")

    def score(trial):
        if trial.node.id.parent and trial.pool is Pool.REPEAT:
            reached.set()
        return 2.0 if trial.node.id.parent else 1.0

    run = bench(score, width=3, proposer=CountingProposer(answer, width=3), pools=Pools(attempts=20, target=2.0))
    finish = await run.drive()
    assert "reached the target" in finish.reason
    assert run.proposer.times <= 4


async def test_an_outage_that_several_questions_meet_is_one_stall(bench):
    together = asyncio.Event()

    async def answer(times, _ask):
        if times == 4:
            together.set()
        await asyncio.wait_for(together.wait(), 60)
        raise Outage("gone")

    run = bench(x_of, width=4, proposer=CountingProposer(answer, width=4))
    finish = await run.drive()
    assert finish.resumable
    assert len(events_of(run, SessionStalled)) == Session.of(run.run).stalls == 1


async def test_an_outage_of_a_trials_model_is_a_stall_too(bench):
    def score(trial):
        if trial.node.id.parent:
            raise Outage("the judge is out")
        return 1.0

    run = bench(score)
    await run.drive()
    assert [event.reason for event in events_of(run, SessionStalled)] == ["the judge is out"]


async def test_attempts_that_another_process_spends_cause_no_endless_loop(bench):
    async def pause(trial):
        if trial.node.id == "1.1":
            loop.stop("enough")

    run = bench(x_of, pools=Pools(attempts=2), width=2, pause=pause)
    loop = run.loop()
    await loop.drive()
    assert run.history["1.1"].is_pending
    other = run.new_recorder()
    for number in (7, 8):
        proposal = Proposal("hand", run.history["1"].id, "by hand", {"x": number / 10})
        (item,) = other.record(
            lambda history, one=proposal: decisions.add_node(
                history, one, CommittedFiles(object_name("c"), object_name("t")), Pool.ATTEMPT
            )
        )
        other.record(
            lambda history, node=item.event.node: decisions.start_trial(history, node, "other", run.judging())
        )
    loop = run.loop()
    # The loop learns of the other process's events only when it tries to start the first pending node.
    assert loop._fill_slot(Counter()) is False
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 2
    assert run.history["1.1"].is_pending


async def test_refusals_after_a_change_of_rung_are_the_reported_reason(bench):
    async def answer(times, _ask):
        return RungChange(1, "rung", "no use") if times == 50 else Refusal("counting", "no use")

    run = bench(x_of, proposer=CountingProposer(answer))
    finish = await run.drive()
    assert "50 proposals were refused" in finish.reason


@pytest.mark.parametrize("width", [1, 4])
async def test_a_proposer_without_a_proposal_is_asked_again_only_when_a_trial_ends(bench, width):
    async def answer(_times, _ask):
        return None

    run = bench(x_of, width=width, proposer=CountingProposer(answer, width), pools=Pools(attempts=20, control=6))
    finish = await run.drive()
    assert "nothing to propose" in finish.reason
    assert TrialCounts.of(run.run, Pool.CONTROL).started == 6
    assert run.proposer.times <= (6 + 1) * width
    assert run.history["1"].verdict is Verdict.KEPT
