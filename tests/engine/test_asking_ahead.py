"""A proposer that waits for a model is asked while trials run; its answers wait for a trial slot."""

import asyncio
import collections

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.domain.proposal import Objection, Proposal, Refusal, RungChange
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.loop import Loop
from loopty.record.nodes import FilesRemoved, NodeAdded, ProposalRefused
from loopty.record.search_learning import Paces
from loopty.record.search_summary import RungChanged
from loopty.record.sessions import SessionEnded
from loopty.record.trials import TrialCounts, Trials, TrialStarted
from loopty.record.verdicts import VerdictWithdrawn


def x_of(trial):
    return trial.node.params["x"]


def events_of(run, *kinds):
    return [recorded.event for recorded in run.ledger.read() if isinstance(recorded.event, kinds)]


def point(ask, x=None):
    return Proposal("point", ask.root.id, "", {"x": ask.rng.random() if x is None else x})


class WaitingProposer:
    """Waits as a model does: for as many turns of the event loop as `turns` says at each question."""

    name = "waiting"

    def __init__(self, turns=lambda _: 3, answer=lambda _, ask: point(ask), width=1):
        self.width = width
        self.known = []
        """By question: its position, the verdicts known, and the nodes that were running."""
        self.open_questions = self.most_at_once = 0
        self.began = collections.defaultdict(asyncio.Event)
        self.answered = collections.defaultdict(asyncio.Event)
        self._turns, self._answer = turns, answer

    async def propose(self, ask):
        number = len(self.known)
        self.known.append(
            (ask.position, {node.id: node.verdict for node in ask.nodes}, sorted(ask.running), ask.early)
        )
        self.open_questions += 1
        self.most_at_once = max(self.most_at_once, self.open_questions)
        self.began[number].set()
        answer = self._answer(number, ask)  # a prompt is made before the wait, too
        try:
            for _ in range(self._turns(number)):
                await asyncio.sleep(0)
        finally:
            self.open_questions -= 1
            self.answered[number].set()
        if isinstance(answer, Exception):
            raise answer
        return answer


def pause_for(turns):
    async def pause(trial):
        for _ in range(turns(trial)):
            await asyncio.sleep(0)

    return pause


def paces(monkeypatch, call, trial):
    """What loopty has measured: the seconds of a call and of a trial."""
    monkeypatch.setattr(Loop, "_paces", lambda _: Paces(call, trial))


@pytest.fixture(autouse=True)
def long_trials(monkeypatch):
    """A trial takes as long as a call."""
    paces(monkeypatch, 1.0, 1.0)


@pytest.mark.parametrize(("call", "trial", "most"), [(4.0, 1.0, 5), (4.0, 0.001, 16), (1.0, 100.0, 2)])
async def test_questions_keep_the_slots_busy_where_the_user_asks_for_it(bench, monkeypatch, call, trial, most):
    paces(monkeypatch, call, trial)
    proposer = WaitingProposer(turns=lambda _: 60, width=16)
    run = bench(x_of, proposer=proposer, pause=pause_for(lambda _: 9), pools=Pools(attempts=30, questions=0))
    await run.drive()
    assert proposer.most_at_once == most
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 30


async def test_as_many_are_asked_ahead_as_slots_become_free_during_a_call(bench, monkeypatch):
    paces(monkeypatch, 1.0, 4.0)
    proposer = WaitingProposer(turns=lambda _: 5, width=8)
    await bench(x_of, proposer=proposer, width=8, pause=pause_for(lambda _: 90), pools=Pools(attempts=40)).drive()
    early = [len(running) for _, _, running, early in proposer.known if early]
    assert early, "a quarter of the slots, two, is asked ahead while all are busy"
    assert proposer.most_at_once == 8, "at the start all are free"


async def test_a_trial_shorter_than_a_call_is_waited_for_unless_the_user_said_how_many(bench, monkeypatch):
    paces(monkeypatch, 2.0, 1.0)
    for questions, running in ((None, [[], [], [], []]), (1, [[], ["1.1"], ["1.2"], ["1.3"]])):
        proposer = WaitingProposer()
        await bench(x_of, proposer=proposer, pools=Pools(attempts=4, questions=questions)).drive()
        assert [nodes for _, _, nodes, _ in proposer.known] == running


async def test_one_proposal_is_made_while_a_trial_runs(bench):
    overlaps = []

    def score(trial):
        if trial.node.id.parent and trial.number == 1:
            overlaps.append(proposer.open_questions)
        return x_of(trial)

    proposer = WaitingProposer(turns=lambda _: 10)
    run = bench(score, proposer=proposer, pause=pause_for(lambda _: 5), pools=Pools(attempts=6))
    await run.drive()
    assert overlaps == [1, 1, 1, 1, 1, 0], "the model works during every trial but the last"
    assert proposer.most_at_once == 1
    assert run.executor.max_running == 1
    assert len(proposer.known) == 6, "nothing is asked for that cannot be tried"


SPEEDS = {
    "a fast model": (lambda _: 0, lambda _: 40),
    "a slow model": (lambda _: 40, lambda _: 1),
    "both by turns": (lambda number: 40 * (number % 2), lambda trial: 40 * (trial.node.order % 3)),
}


async def test_the_tree_does_not_depend_on_who_is_faster(bench):
    def answer(number, ask):
        if number % 4 == 2:
            return Refusal("point", "useless")
        if number % 5 == 3:
            return RungChange(number, "rung", "it is time")
        best = ask.best
        return Proposal("point", best.id, f"from {best.id}", {"x": ask.rng.random()})

    trees, known = [], []
    for turns, trial_turns in SPEEDS.values():
        proposer = WaitingProposer(turns, answer)
        run = bench(
            x_of, seed=3, proposer=proposer, pause=pause_for(trial_turns), pools=Pools(attempts=12, control=4)
        )
        await run.drive()
        trees.append(run.tree())
        known.append(proposer.known)
    assert trees[1:] == trees[:1] * 2
    assert known[1:] == known[:1] * 2


async def test_a_question_ahead_knows_every_result_but_that_of_the_running_trial(bench):
    proposer = WaitingProposer()
    run = bench(x_of, proposer=proposer, pools=Pools(attempts=4))
    await run.drive()
    for number, (position, verdicts, running, early) in enumerate(proposer.known):
        assert position == number
        assert running == ([f"1.{number}"] if number else [])
        assert early == (number > 0)
        assert [node for node, verdict in verdicts.items() if verdict is None] == running


@pytest.mark.parametrize("order", range(3, 9))
async def test_an_interrupted_run_grows_the_same_tree(bench, order):
    async def pause(trial):
        if trial.node.order == order and trial.number == 1:
            loop.stop("stopped on request")

    whole = bench(x_of, proposer=WaitingProposer(), pools=Pools(attempts=9))
    await whole.drive()
    broken = bench(x_of, proposer=WaitingProposer(), pause=pause, pools=Pools(attempts=9))
    loop = broken.loop()
    assert (await loop.drive()).resumable
    broken.proposer = WaitingProposer()
    await broken.drive()
    assert broken.tree() == whole.tree()


async def test_a_proposer_that_never_waits_is_not_asked_ahead(bench):
    class Free(WaitingProposer):
        def __init__(self):
            super().__init__(turns=lambda _: 0)
            del self.width

    run = bench(x_of, proposer=Free(), pause=pause_for(lambda _: 5), pools=Pools(attempts=5))
    await run.drive()
    assert [running for _, _, running, _ in run.proposer.known] == [[]] * 5


async def test_nothing_is_asked_ahead_where_proposals_have_a_pace(bench):
    async def pace():
        await asyncio.sleep(0)

    run = bench(x_of, proposer=WaitingProposer(), pools=Pools(attempts=3))
    await run.loop(pace=pace).drive()
    assert [early for *_, early in run.proposer.known] == [False] * 3


async def test_a_proposer_that_has_nothing_ahead_is_asked_when_a_trial_can_start(bench):
    """Also when no trial ends in between: the question of the control gave none."""

    class Empty:
        name = "empty"

        async def propose(self, _ask):
            for _ in range(9):
                await asyncio.sleep(0)
            raise Exhausted("nothing")

    proposer = WaitingProposer(turns=lambda _: 0, answer=lambda _, ask: None if ask.early else point(ask))
    run = bench(x_of, proposer=proposer, control=Empty(), pools=Pools(attempts=4, control=4))
    await run.drive()
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 4


@pytest.mark.parametrize(("width", "questions"), [(1, 4), (2, 3), (4, 4), (4, 1)])
async def test_both_kinds_of_slots_are_full_and_the_attempts_are_not_exceeded(bench, width, questions):
    proposer = WaitingProposer(turns=lambda _: 30, width=questions)
    run = bench(
        x_of,
        proposer=proposer,
        width=width,
        pause=pause_for(lambda _: 120),
        pools=Pools(attempts=17, questions=questions),
    )
    await run.drive()
    assert run.executor.max_running == width
    assert proposer.most_at_once == questions
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 17
    assert len(proposer.known) == 17
    assert len({position for position, *_ in proposer.known}) == 17


async def test_questions_follow_the_slots_for_trials_where_the_user_did_not_say_how_many(bench):
    """The slots of a pool grow and shrink with its workers; the proposer itself could answer any number."""
    proposer, widths = WaitingProposer(turns=lambda _: 30, width=4096), iter([6])
    run = bench(x_of, proposer=proposer, width=2, pause=pause_for(lambda _: 120), pools=Pools(attempts=30))

    def answer(number, ask):
        if number == 8:
            assert proposer.most_at_once == 2
            run.executor.width = next(widths)
        return point(ask)

    proposer._answer = answer
    await run.drive()
    assert proposer.most_at_once == run.executor.max_running == 6


async def test_trials_start_in_the_order_in_which_they_were_proposed(bench):
    proposer = WaitingProposer(turns=lambda number: 5 * (4 - number % 4), width=4)
    run = bench(x_of, proposer=proposer, width=2, pause=pause_for(lambda _: 60), pools=Pools(attempts=12))
    answered = []
    inner = proposer.propose

    async def propose(ask):
        suggestion = await inner(ask)
        answered.append(suggestion.params["x"])
        return suggestion

    proposer.propose = propose
    await run.drive()
    started = [
        event.node for event in events_of(run, TrialStarted) if event.pool is Pool.ATTEMPT and event.node.parent
    ]
    assert [run.history[node].params["x"] for node in started] == answered


async def test_repeats_come_before_a_proposal_that_waits(bench):
    """A node that needs another measurement keeps its slot until it has its verdict."""
    run = bench(lambda trial: x_of(trial) + trial.number * 1e-3, proposer=WaitingProposer(turns=lambda _: 0))
    await run.drive()
    open_node = None
    for event in events_of(run, TrialStarted):
        subject = getattr(event, "subject", None) or event.node
        if open_node is not None and subject != open_node:
            assert run.history[open_node].verdict is not None
        open_node = subject
    order = [event.node for event in events_of(run, TrialStarted) if event.pool is Pool.ATTEMPT]
    assert order == sorted(order, key=lambda node: run.history[node].order)


async def test_a_twin_that_was_recorded_meanwhile_costs_no_attempt(bench):
    run = bench(
        x_of,
        proposer=WaitingProposer(answer=lambda number, ask: point(ask, 0.7 if number < 2 else None)),
        pools=Pools(attempts=3),
    )
    await run.drive()
    assert [event.reason for event in events_of(run, ProposalRefused)] == ["the same as @2"]
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 3


@pytest.mark.parametrize("event", [VerdictWithdrawn, FilesRemoved])
async def test_a_parent_that_became_unusable_meanwhile_costs_no_attempt(bench, event):
    def answer(number, ask):
        parent = NodeId("1.1") if number == 2 else ask.root.id
        return Proposal("point", parent, "", {"x": 0.93 - 0.1 * number})

    async def pause(trial):
        if trial.node.id == "1.2" and trial.number == 1:
            await asyncio.wait_for(run.proposer.answered[2].wait(), 60)
            lost = (
                event(NodeId("1.1"), Verdict.REJECTED, "it cheated")
                if event is VerdictWithdrawn
                else event((NodeId("1.1"),))
            )
            run.recorder.record(lambda _: [lost])

    run = bench(x_of, proposer=WaitingProposer(answer=answer), pause=pause, pools=Pools(attempts=4))
    await run.drive()
    (refused,) = events_of(run, ProposalRefused)
    assert refused.objection is Objection.FORBIDDEN
    assert "its parent @2" in refused.reason
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 4


@pytest.mark.parametrize("pools", [Pools(attempts=50, target=0.5), Pools(attempts=50, patience=1)])
async def test_when_the_run_is_over_the_question_ahead_is_given_up(bench, pools):
    def score(trial):
        return 1.0 if trial.node.id == "1.1" and pools.target else 0.0

    proposer = WaitingProposer(turns=lambda number: 0 if number == 0 else 10**6)
    run = bench(score, proposer=proposer, pools=pools)
    finish = await asyncio.wait_for(run.drive(), 60)
    assert "target" in finish.reason or "no improvement" in finish.reason
    assert proposer.open_questions == 0
    assert [event.node for event in events_of(run, NodeAdded)] == ["1", "1.1"]


async def test_a_stop_ends_the_trial_and_the_question(bench):
    async def pause(trial):
        if trial.node.id == "1.1":
            await asyncio.wait_for(run.proposer.began[1].wait(), 60)
            loop.stop("enough")

    run = bench(x_of, proposer=WaitingProposer(turns=lambda number: 0 if number == 0 else 10**6), pause=pause)
    loop = run.loop()
    finish = await asyncio.wait_for(loop.drive(), 60)
    assert (finish.reason, finish.resumable) == ("enough", True)
    assert run.proposer.open_questions == 0
    assert Trials.of(run.run).running == {}
    assert isinstance([*run.ledger.read()][-1].event, SessionEnded)


async def test_an_outage_of_the_model_lets_the_running_trial_finish(bench):
    def answer(number, ask):
        return Outage("gone") if number == 2 else point(ask)

    run = bench(
        x_of, proposer=WaitingProposer(answer=answer), pause=pause_for(lambda _: 20), pools=Pools(attempts=9)
    )
    finish = await run.drive()
    assert finish.resumable
    assert [run.history[NodeId(node)].verdict in Verdict for node in ("1.1", "1.2")] == [True, True]
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 2


async def test_a_cap_that_is_reached_ahead_ends_the_run_after_the_running_trial(bench):
    def answer(number, ask):
        return Exhausted("the tokens are spent") if number == 2 else point(ask)

    run = bench(
        x_of, proposer=WaitingProposer(answer=answer), pause=pause_for(lambda _: 20), pools=Pools(attempts=9)
    )
    finish = await run.drive()
    assert "the tokens are spent" in finish.reason
    assert TrialCounts.of(run.run, Pool.ATTEMPT).endings == {Ending.FINISHED: 3}


async def test_a_change_of_rung_ahead_is_recorded_when_a_trial_can_start(bench):
    def answer(number, ask):
        return RungChange(1, "broad", "nothing new") if number == 1 else point(ask)

    run = bench(
        x_of, proposer=WaitingProposer(answer=answer), pause=pause_for(lambda _: 20), pools=Pools(attempts=2)
    )
    await run.drive()
    kinds = [type(event) for event in events_of(run, NodeAdded, RungChanged)]
    assert kinds == [NodeAdded, NodeAdded, RungChanged, NodeAdded]


async def test_a_failing_trial_changes_nothing_for_the_question_beside_it(bench):
    run = bench(
        lambda trial: Outcome(Ending.FAILED, reason="crash") if trial.node.id.parent else 1.0,
        proposer=WaitingProposer(),
        pools=Pools(attempts=3),
    )
    assert not (await run.drive()).sound
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 3
