"""Slow proposers: several questions at once, refusals, changes of rung, outages."""

import asyncio
import itertools

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage
from loopty.domain.proposal import Objection, Proposal, Refusal, RungChange
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Pool, Verdict
from loopty.record.nodes import ProposalRefused, Proposals
from loopty.record.search_summary import LadderState, RungChanged
from loopty.record.sessions import Session, SessionStalled
from loopty.record.trials import TrialCounts, Trials


def x_of(trial):
    return trial.node.params["x"]


class SlowProposer:
    """Answers when enough questions are open; counts how many were open at once."""

    name = "slow"

    def __init__(self, width=1):
        if width > 1:
            self.width = width
        self.open_questions = self.most_at_once = 0
        self.positions = []
        self.enough_asked, self.began = asyncio.Event(), asyncio.Event()
        self._wanted = width

    async def propose(self, ask):
        self.positions.append(ask.position)
        self.open_questions += 1
        self.began.set()
        self.most_at_once = max(self.most_at_once, self.open_questions)
        if self.open_questions >= self._wanted:
            self.enough_asked.set()
        await asyncio.wait_for(self.enough_asked.wait(), 60)
        self.open_questions -= 1
        return Proposal(self.name, ask.root.id, "a point", {"x": ask.rng.random()})


class Scripted:
    name = "scripted"

    def __init__(self, *script):
        self._script = iter(script)

    async def propose(self, ask):
        answer = next(self._script, None)
        if answer is None:
            raise Exhausted("the script is used up")
        if isinstance(answer, Exception):
            raise answer
        return answer(ask) if callable(answer) else answer


def point(ask):
    return Proposal("point", ask.root.id, "", {"x": ask.rng.random()})


def events_of(run, kind):
    return [recorded.event for recorded in run.ledger.read() if isinstance(recorded.event, kind)]


async def test_a_proposer_with_a_width_is_asked_several_questions_at_once(bench):
    proposer = SlowProposer(width=3)
    run = bench(x_of, proposer=proposer, width=3, pools=Pools(attempts=9))
    await run.drive()
    assert proposer.most_at_once == 3
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 9
    assert len(set(proposer.positions)) == len(proposer.positions), "each question has its own random generator"


async def test_a_proposer_without_a_width_is_asked_one_question_at_a_time(bench):
    proposer = SlowProposer()
    run = bench(x_of, proposer=proposer, width=4, pools=Pools(attempts=6))
    await run.drive()
    assert proposer.most_at_once == 1


async def test_no_more_proposals_are_asked_for_than_trials_are_left(bench):
    proposer = SlowProposer(width=2)
    run = bench(x_of, proposer=proposer, width=8, pools=Pools(attempts=2))
    await run.drive()
    assert len(proposer.positions) == 2
    assert Proposals.of(run.run, Pool.ATTEMPT).nodes == 2


async def test_the_control_does_not_overtake_a_pool_whose_proposer_is_slow(bench):
    leads = []

    class Slow:
        name = "slow"

        async def propose(self, ask):
            for _ in range(50):
                await asyncio.sleep(0)
            run = ask.history.runs[1]
            control, attempts = (TrialCounts.of(run, pool).started for pool in (Pool.CONTROL, Pool.ATTEMPT))
            leads.append(control - attempts)
            return point(ask)

    run = bench(x_of, proposer=Slow(), width=4, pools=Pools(attempts=8, control=8))
    await run.drive()
    assert max(leads) <= 1
    assert TrialCounts.of(run.run, Pool.CONTROL).started == 8


async def test_a_refusal_is_recorded_and_costs_no_attempt(bench):
    refusal = Refusal("diff", "SEARCH is not in the file", Objection.APPLY, ("call",), 0)
    run = bench(x_of, proposer=Scripted(refusal, point, refusal, point), pools=Pools(attempts=2))
    finish = await run.drive()
    assert finish.sound
    assert [event.objection for event in events_of(run, ProposalRefused)] == [Objection.APPLY, Objection.APPLY]
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 2


async def test_a_change_of_rung_is_recorded_with_its_reason(bench):
    run = bench(
        x_of, proposer=Scripted(point, RungChange(1, "llm-code", "nothing new"), point), pools=Pools(attempts=2)
    )
    await run.drive()
    assert [(event.rung, event.reason) for event in events_of(run, RungChanged)] == [(1, "nothing new")]
    ladder = LadderState.of(run.run, Pool.ATTEMPT)
    assert (ladder.rung, ladder.started) == (1, 1)


async def test_a_ladder_that_only_changes_rungs_ends_its_pool(bench):
    steps = (RungChange(number % 2, "rung", "no use") for number in itertools.count())

    class RungChanger:
        name = "ladder"

        async def propose(self, _ask):
            return next(steps)

    run = bench(x_of, proposer=RungChanger(), pools=Pools(attempts=3))
    finish = await run.drive()
    assert "goes from rung to rung and proposes nothing" in finish.reason
    assert not finish.sound


async def test_an_outage_is_a_stall_and_not_a_failed_trial(bench):
    run = bench(x_of, proposer=Scripted(point, Outage("no route to the model")), pools=Pools(attempts=5))
    finish = await run.drive()
    assert (finish.sound, finish.resumable) == (False, True)
    assert "no route to the model" in finish.reason
    assert [event.reason for event in events_of(run, SessionStalled)] == ["no route to the model"]
    assert Session.of(run.run).stalls == 1
    counts = TrialCounts.of(run.run, Pool.ATTEMPT)
    assert counts.endings == {Ending.FINISHED: 2}
    assert counts.started == 1, "the other attempts are not spent"


async def test_a_trial_that_runs_during_an_outage_finishes_and_is_judged(bench):
    outage = asyncio.Event()

    async def pause(trial):
        if trial.node.id.parent:
            await asyncio.wait_for(outage.wait(), 60)

    class Failing(Scripted):
        async def propose(self, ask):
            if ask.position:
                outage.set()
                raise Outage("gone")
            return point(ask)

    run = bench(x_of, proposer=Failing(), width=2, pause=pause, pools=Pools(attempts=5))
    finish = await run.drive()
    assert finish.resumable
    assert Trials.of(run.run).running == {}
    assert run.history["1.1"].verdict in (Verdict.KEPT, Verdict.DISCARDED)


async def test_a_trial_whose_model_is_unavailable_costs_no_attempt_and_is_run_later(bench):
    def score(trial):
        if trial.node.id.parent and run.proposer is first:
            raise Outage("the benchmark's model is out")
        return x_of(trial)

    first = Scripted(point)
    run = bench(score, proposer=first, pools=Pools(attempts=1))
    finish = await run.drive()
    assert (finish.sound, finish.resumable) == (False, True)
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 0
    run.proposer = Scripted()
    finish = await run.drive()
    assert finish.sound
    assert run.history["1.1"].verdict


async def test_a_stop_cancels_an_open_question(bench):
    run = bench(x_of, proposer=SlowProposer(width=2), width=1, pools=Pools(attempts=5))
    loop = run.loop()
    driving = asyncio.create_task(loop.drive())
    await asyncio.wait_for(run.proposer.began.wait(), 60)
    loop.stop("enough")
    finish = await asyncio.wait_for(driving, 60)
    assert finish.reason == "enough"


async def test_each_question_waits_for_the_pace(bench):
    waits = []

    async def pace():
        waits.append(True)

    run = bench(x_of, proposer=Scripted(point, point), pools=Pools(attempts=2))
    loop = run.loop(pace=pace)
    await loop.drive()
    assert len(waits) == 2


@pytest.mark.parametrize("width", [1, 3])
async def test_a_spent_cap_ends_the_run_with_that_reason(bench, width):
    run = bench(x_of, proposer=Scripted(point, Exhausted("the tokens are spent")), width=width)
    finish = await run.drive()
    assert "the tokens are spent" in finish.reason
    assert finish.sound


async def test_a_coin_decides_whether_an_attempt_or_the_control_beside_it_comes_first(bench):
    run = bench(x_of, pools=Pools(attempts=40, control=40))
    await run.drive()
    pools = [run.history[node].pool for node in run.history.ids][1:]
    pairs = [(pools[place], pools[place + 1]) for place in range(0, 80, 2)]
    assert all(one is not other for one, other in pairs)
    assert 10 < sum(first is Pool.CONTROL for first, _ in pairs) < 30
