"""The verifier reviews winners: it can only reject them, and losing a review costs nothing else."""

import asyncio
import io
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.domain.proposal import Proposal
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.loop import next_undecided
from loopty.engine.protocols import Ask, CommittedFiles
from loopty.kit import codec
from loopty.ledgers.sqlite import MemoryLedger
from loopty.proposers.parameters.optuna_samplers import StatelessProposer
from loopty.proposers.selectors.judged_nodes import population
from loopty.record.trials import TrialCounts, TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged, Reviews
from loopty.show.goodput import goodput
from loopty.show.node import detail, node_text
from loopty.show.progress import PlainProgress
from loopty.show.run_status import status
from loopty.show.status_text import status_text
from loopty.show.tally import VerifierTotals, tally, uplift
from loopty.show.terminal import Terminal

from .conftest import SPACE, Bench

PASS = Outcome(Ending.FINISHED, reason="it keeps the rules")
FAIL = Outcome(Ending.REFUSED, reason="hard-coded answers")
UNREAD = Outcome(Ending.FAILED, reason="no usable answer")


class ScriptedReviewer:
    """A reviewer with the answer of a test: an outcome, an error, or a function of the trial."""

    def __init__(self, mode, answer):
        self.mode = mode
        self.asked = []
        self._answer = answer

    async def review(self, trial, cancel):
        self.asked.append(trial.node.id)
        answer = self._answer(trial, cancel) if callable(self._answer) else self._answer
        answer = await answer if asyncio.iscoroutine(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer


class ReviewedRun(Bench):
    """A run in memory whose winners are reviewed."""

    def __init__(self, score, mode="reject", answer=PASS, **how):
        super().__init__(score, **{"noise": Noise(repeat="never"), "pools": Pools(attempts=8), **how})
        self.reviewer = ScriptedReviewer(mode, answer)

    def start(self, node, owner="me", pools=None):
        given = NodeId(node), owner, self.judging(pools)
        return [item.event for item in self.recorder.record(lambda h: decisions.start_trial(h, *given))]

    def end(self, node, number, outcome):
        given = NodeId(node), number, outcome, self.judging()
        return [item.event for item in self.recorder.record(lambda h: decisions.end_trial(h, *given))]

    def add(self, x):
        proposal = Proposal("hand", NodeId("1"), "a change", {"x": x})
        self.recorder.record(
            lambda h: decisions.add_node(h, proposal, CommittedFiles("c1" * 20, "f1" * 20), Pool.ATTEMPT)
        )

    def judged(self):
        return [item.event for item in self.ledger.read() if isinstance(item.event, NodeJudged)]

    def status(self):
        return status(self.history, self.run, 1.0, lambda _: True, self.task.pools)


def x_of(trial):
    return trial.node.params["x"]


def run_under_review(x=0.9, **how):
    """A run with a baseline of 0 and one node that the metric would keep, now under review."""
    run = ReviewedRun(x_of, **how)
    run.start("1")
    run.end("1", 1, Outcome(Ending.FINISHED, {"score": 0.0}))
    run.add(x)
    run.start("1.1")
    run.end("1.1", 1, Outcome(Ending.FINISHED, {"score": x}))
    return run


async def test_every_winner_is_reviewed_once_and_no_other_node_is():
    run = ReviewedRun(x_of)
    await run.drive()
    kept = [event.node for event in run.judged() if event.verdict is Verdict.KEPT and event.node.parent]
    assert kept
    assert run.reviewer.asked == kept
    assert all(run.history[node].review.passed for node in kept)
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 8
    assert TrialCounts.of(run.run, Pool.REVIEW).endings == {"finished": len(kept)}


async def test_a_winner_that_the_verifier_rejects_never_becomes_the_best():
    run = ReviewedRun(x_of, answer=FAIL)
    finish = await run.drive()
    assert finish.sound
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == run.run.root
    rejected = [event for event in run.judged() if event.verdict is Verdict.REJECTED]
    assert rejected
    assert {event.reason for event in rejected} == {"the verifier: hard-coded answers"}
    assert Reviews.of(run.run, Pool.ATTEMPT).rejected_by_verifier == len(rejected)


async def test_a_winner_that_the_verifier_only_flags_is_kept_with_a_note():
    run = ReviewedRun(x_of, mode="flag", answer=FAIL)
    await run.drive()
    best = run.history[Incumbents.of(run.run, Pool.ATTEMPT).best]
    assert best.id.parent
    assert best.reason.endswith("; the verifier objects: hard-coded answers")
    assert best.review.passed is False
    assert Reviews.of(run.run, Pool.ATTEMPT).rejected_by_verifier == 0


async def test_without_an_answer_a_winner_waits_for_a_person_where_the_verifier_rejects():
    run = ReviewedRun(x_of, answer=UNREAD)
    await run.drive()
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == run.run.root
    held = [event for event in run.judged() if event.verdict is Verdict.HELD]
    assert held
    assert all("not reviewed: no usable answer; look at" in event.reason for event in held)


async def test_without_an_answer_a_winner_is_kept_and_marked_as_unreviewed():
    run = ReviewedRun(x_of, mode="flag", answer=UNREAD)
    await run.drive()
    best = run.history[Incumbents.of(run.run, Pool.ATTEMPT).best]
    assert best.id.parent
    assert best.reason.endswith("; not reviewed: no usable answer")
    assert best.review.passed is None


async def test_neither_the_baseline_nor_the_control_is_reviewed():
    run = ReviewedRun(x_of, answer=FAIL, pools=Pools(attempts=4, control=4))
    await run.drive()
    assert {run.history[node].pool for node in run.reviewer.asked} == {Pool.ATTEMPT}
    assert run.run.root not in run.reviewer.asked
    assert Incumbents.of(run.run, Pool.CONTROL).best != run.run.root


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=8),
    answers=st.lists(st.sampled_from([PASS, FAIL, UNREAD]), min_size=8, max_size=8),
    mode=st.sampled_from(["flag", "reject"]),
)
def test_whatever_the_verifier_answers_only_winners_by_the_metric_are_kept(scores, answers, mode):
    remaining = iter(answers)
    run = ReviewedRun(
        lambda trial: scores[trial.node.order - 2] if trial.node.id.parent else 0.0,
        mode,
        lambda *_: next(remaining),
        pools=Pools(attempts=len(scores)),
    )
    asyncio.run(run.drive())
    best = 0.0
    for event in run.judged()[1:]:
        score = run.history[event.node].outcome.metrics["score"]
        if event.verdict is Verdict.KEPT:
            assert score > best
            best = score
        elif score > best:
            assert mode == "reject"
            passed = {Verdict.REJECTED: False, Verdict.HELD: None}[event.verdict]
            assert run.history[event.node].review.passed is passed
    assert run.history.score(run.history[Incumbents.of(run.run, Pool.ATTEMPT).best]) == best


def test_a_review_changes_no_measurement():
    run = run_under_review()
    before = run.history[NodeId("1.1")]
    _, judged = run.end("1.1", 2, PASS)
    after = run.history[NodeId("1.1")]
    assert judged.verdict is Verdict.KEPT
    assert (after.outcome, after.samples, after.pairing) == (before.outcome, before.samples, before.pairing)


def test_a_node_that_loses_to_a_new_incumbent_during_its_review_is_not_kept():
    run = run_under_review(x=0.5)
    run.add(0.8)
    run.start("1.2")
    run.end("1.2", 1, Outcome(Ending.FINISHED, {"score": 0.8}))
    run.end("1.2", 2, PASS)
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == "1.2"
    _, judged = run.end("1.1", 2, PASS)
    assert judged.verdict is Verdict.DISCARDED
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == "1.2"


def test_a_node_whose_process_died_during_its_review_is_reviewed_again():
    run = run_under_review()
    for number in range(2, decisions.LOSSES_UNTIL_QUARANTINE + 3):
        run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
        node = run.history[NodeId("1.1")]
        assert (node.verdict, node.running, node.losses, node.review) == (None, False, 0, None)
        assert next_undecided(run.history, 1, Pool.ATTEMPT).id == "1.1"
        (started,) = run.start("1.1")
        assert (started.pool, started.number) == (Pool.REVIEW, number + 1)
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 1
    _, judged = run.end("1.1", number + 1, PASS)
    assert judged.verdict is Verdict.KEPT
    assert TrialCounts.of(run.run, Pool.REVIEW).started == 1


async def test_an_outage_of_the_verifier_ends_the_session_and_the_next_one_repeats_the_review():
    answers = itertools.chain([Outage("the model is unavailable")], itertools.repeat(PASS))
    run = ReviewedRun(x_of, answer=lambda *_: next(answers))
    finish = await run.drive()
    assert finish.resumable
    waiting = run.history[run.reviewer.asked[0]]
    assert (waiting.verdict, waiting.running, waiting.losses) == (None, False, 0)
    await run.drive()
    assert run.reviewer.asked[1] == waiting.id
    assert run.history[waiting.id].verdict is Verdict.KEPT
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 8


async def test_a_stop_cancels_the_review_and_resuming_repeats_it():
    async def wait(_, cancel):
        loop.stop("enough")
        await cancel.wait()
        return Outcome(Ending.CANCELLED, reason="stopped on request")

    run = ReviewedRun(x_of, answer=wait)
    loop = run.loop()
    assert (await loop.drive()).reason == "enough"
    (asked,) = run.reviewer.asked
    assert run.history[asked].review is None
    run.reviewer = ScriptedReviewer("reject", PASS)
    await run.drive()
    assert run.reviewer.asked[0] == asked
    assert run.history[asked].verdict is Verdict.KEPT


class FailingExecutor:
    """An executor that raises for every node but the baseline."""

    width = 1

    def __init__(self, sound, error):
        self._sound = sound
        self._error = error

    async def execute(self, trial, seen, cancel):
        if trial.node.id.parent:
            raise self._error
        return await self._sound.execute(trial, seen, cancel)


async def test_a_node_that_brings_the_model_down_several_times_is_quarantined_and_costs_no_attempt():
    run = ReviewedRun(x_of)
    run.executor = FailingExecutor(run.executor, Outage("the server answers 500"))
    for _ in range(decisions.LOSSES_UNTIL_QUARANTINE):
        assert run.history.number == 2 or run.history[NodeId("1.1")].verdict is None
        await run.drive()
    assert run.history[NodeId("1.1")].verdict is Verdict.QUARANTINED
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 0


async def test_a_trial_that_a_spent_cap_ended_costs_no_attempt_and_does_not_count_against_its_node():
    run, error = ReviewedRun(x_of), Exhausted("the limit of the user role is reached")
    sound, run.executor = run.executor, FailingExecutor(run.executor, error)
    for _ in range(decisions.LOSSES_UNTIL_QUARANTINE + 1):
        await run.drive()
    node = run.history[NodeId("1.1")]
    assert (node.verdict, node.losses, node.running) == (None, 0, False)
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 0
    ended = [item.event for item in run.ledger.read() if isinstance(item.event, TrialEnded)]
    assert ended[-1].outcome == Outcome(Ending.CANCELLED, reason=str(error))
    run.executor = sound
    await run.drive()
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 8


async def test_a_replay_of_a_reviewed_node_is_not_reviewed():
    run = ReviewedRun(x_of)
    await run.drive()
    asked, measure = len(run.reviewer.asked), run.measure()
    best = run.history[Incumbents.of(run.run, Pool.ATTEMPT).best]
    outcome = await measure.run_observation(
        measure.start_observation(best, Pool.REPLAY), lambda _: None, asyncio.Event()
    )
    assert outcome.is_finished
    assert len(run.reviewer.asked) == asked
    assert run.history[best.id].verdict is Verdict.KEPT


async def test_the_tables_have_the_reviews():
    run = ReviewedRun(x_of, mode="flag", answer=FAIL)
    await run.drive()
    opened, folded = run.ledger.history(), MemoryLedger().history()
    for recorded in run.ledger.read():
        folded.apply(recorded)
    assert codec.plain(opened.runs) == codec.plain(folded.runs)
    assert [opened[node] for node in opened.ids] == [folded[node] for node in folded.ids]


async def test_reviews_are_counted_apart_from_trials():
    answers = itertools.chain([FAIL, PASS], itertools.repeat(UNREAD))
    run = ReviewedRun(
        lambda trial: float(trial.node.order), answer=lambda *_: next(answers), pools=Pools(attempts=4)
    )
    await run.drive()
    found = run.status()
    assert found.verified == VerifierTotals(passed=1, disagreements=1, rejected=1, unreviewed=2)
    assert [count.pool for count in found.counts] == [Pool.ATTEMPT]
    assert found.count(Pool.ATTEMPT).endings == {"finished": 4}
    shown = " ".join(status_text(found, 200, tally=tally(run.history, 1)).split())
    assert (
        "verifier 2 winners reviewed, disagreed with the metric on 1 (1 rejected), 2 winners not reviewed" in shown
    )
    assert goodput(run.history, run.run, 1.0).waste == ()


def test_the_status_of_a_run_without_a_verifier_does_not_mention_one():
    run = Bench(x_of)
    run.start("1")
    found = status(run.history, run.run, 1.0, lambda _: True)
    assert found.verified is None
    assert "verifier" not in status_text(found, 80)


def test_a_running_review_is_shown_as_a_review():
    found = run_under_review().status()
    assert [(trial.node, trial.pool, trial.repeat) for trial in found.running] == [
        (NodeId("1.1"), Pool.REVIEW, None)
    ]
    assert "@2 (review) for" in status_text(found, 80)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (PASS, "passed: it keeps the rules"),
        (FAIL, "objected to: hard-coded answers"),
        (UNREAD, "not reviewed: no usable answer"),
    ],
)
def test_a_node_shows_its_review(answer, text):
    run = run_under_review(mode="flag")
    run.end("1.1", 2, answer)
    shown = node_text(detail(run.history, NodeId("1.1")), "folder", 200)
    assert text in " ".join(shown.split())


def test_a_review_starts_as_a_trial_of_its_own_pool():
    run = run_under_review()
    events = [item.event for item in run.ledger.read()]
    assert events[-1] == TrialStarted(NodeId("1.1"), 2, Pool.REVIEW, "me", NodeId("1.1"))


async def test_a_sampler_learns_no_more_from_a_rejected_node_than_from_a_failed_one():
    def cheats(trial, _):
        return FAIL if x_of(trial) > 0.6 else PASS

    def crashes(trial):
        return Outcome(Ending.FAILED, reason="crash") if x_of(trial) > 0.6 else x_of(trial)

    pools = Pools(attempts=16)
    rejected, failed = ReviewedRun(x_of, answer=cheats, pools=pools), ReviewedRun(crashes, pools=pools)
    for run in (rejected, failed):
        run.proposer = StatelessProposer("tpe", SPACE)
        await run.drive()
    assert Verdict.REJECTED in {verdict for _, _, verdict in rejected.tree()}
    assert [params for _, params, _ in rejected.tree()] == [params for _, params, _ in failed.tree()]


async def test_a_rejected_node_is_never_a_parent_and_adds_no_uplift():
    def cheats(trial, _):
        return FAIL if trial.node.id == "1.1" else PASS

    def score(trial):
        if trial.node.id == "1.1":
            return 9.0
        return 0.0 if not trial.node.id.parent else 0.5 if trial.node.pool is Pool.ATTEMPT else 0.2

    run = ReviewedRun(score, answer=cheats, pools=Pools(attempts=6, control=6))
    await run.drive()
    assert run.history[NodeId("1.1")].verdict is Verdict.REJECTED
    ask = Ask(run.history, 1, Pool.ATTEMPT, random.Random)
    assert "1.1" not in {one.id for one in population(ask)}
    assert uplift(run.history, 1).amount == pytest.approx(0.5 - 0.2)


async def test_a_rejection_by_the_verifier_is_printed():
    run, out = ReviewedRun(x_of, answer=FAIL, pools=Pools(attempts=3)), io.StringIO()
    lines = PlainProgress(run.recorder, 1, run.task.pools, out, Terminal(), lambda: 0.0)
    run.recorder.listeners.append(lines.on_event)
    await run.drive()
    assert "rejected @2: the verifier: hard-coded answers" in out.getvalue()
