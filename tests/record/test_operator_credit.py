"""Credit: what operators and models cost and brought, folded from events."""

from __future__ import annotations

import itertools

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.fold import Event, Recorded
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.search_learning import ArmCredit, OperatorCredit
from loopty.record.sessions import RunStarted
from loopty.record.trials import Cohorts, TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged, VerdictWithdrawn


class Story:
    """A run whose events a test writes."""

    def __init__(self) -> None:
        self.history = MemoryLedger().history()
        self._numbers = itertools.count(1)
        self.record(RunStarted(1, "criteria", Objective(), 0, "why"))
        self.add("1", "baseline")
        self.judge("1", 1.0, Verdict.KEPT)

    def record(self, *events: Event) -> None:
        for event in events:
            number = next(self._numbers)
            self.history.apply(Recorded(number, float(number), event))

    def call(self, name: str, model: str = "m", operator: str = "diff", tokens: int = 100) -> None:
        about = NodeId("1")
        self.record(
            CallReserved(1, name, "evolver", 1, 0.0, "me", model, operator, about, Pool.ATTEMPT),
            CallSettled(1, name, tokens, tokens / 1000),
        )

    def add(self, node: str, operator: str = "diff", calls: tuple[str, ...] = (), remaining: int = 0, at: int = 0):
        self.record(
            NodeAdded(
                NodeId(node), Pool.ATTEMPT, operator, "", "c", node, calls=calls,
                remaining_in_reply=remaining, index_in_reply=at,
            )
        )  # fmt: skip

    def judge(self, node: str, score: float | None, verdict: Verdict = Verdict.DISCARDED) -> None:
        outcome = Outcome(Ending.FAILED) if score is None else Outcome(Ending.FINISHED, {"score": score})
        self.record(
            TrialStarted(NodeId(node), 1, Pool.ATTEMPT, "me"),
            TrialEnded(NodeId(node), 1, outcome),
            NodeJudged(NodeId(node), verdict, ""),
        )

    @property
    def credit(self) -> OperatorCredit:
        return OperatorCredit.of(self.history.runs[1], Pool.ATTEMPT)

    def reward(self, node: str) -> float:
        return self.history[NodeId(node)].reward


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_node_earns_its_gain_over_its_parent_as_a_share_of_the_largest_of_late(story):
    for number, (parent, score) in enumerate((("1", 3.0), ("1.1", 3.5), ("1.1", 3.4)), start=1):
        story.call(f"c{number}")
        node = f"{parent}.{1 if number < 3 else 2}"
        story.add(node, calls=(f"c{number}",))
        story.judge(node, score, Verdict.KEPT if number < 3 else Verdict.DISCARDED)
    assert story.reward("1.1") == 1.0, "the largest gain of all"
    assert story.reward("1.1.1") == pytest.approx(0.5 / (2.0 * 0.95), abs=1e-6)
    assert story.reward("1.1.2") == pytest.approx(0.4 / (2.0 * 0.95**2), abs=1e-6)
    arm = story.credit.arm("diff", "m")
    assert (arm.asked, arm.trials, arm.calls, arm.tokens) == (3, 3, 3.0, 300.0)
    assert arm.reward == pytest.approx(sum(map(story.reward, ("1.1", "1.1.1", "1.1.2"))))
    assert (arm.call_seconds, arm.trial_seconds) == (3.0, 0.0), "a second for each call"
    assert story.credit.top == ("1.1.1", "1.1.2", "1.1", "1")


def test_a_tie_earns_nothing_and_a_large_gain_more_than_a_small_one(story):
    story.add("1.1")
    story.judge("1.1", 2.0, Verdict.KEPT)
    story.add("1.1.1", "mutate")
    story.judge("1.1.1", 2.0)
    story.add("1.1.2", "rewrite")
    story.judge("1.1.2", 2.001, Verdict.KEPT)
    assert story.reward("1.1.1") == 0
    assert 0 < story.reward("1.1.2") < 0.002
    assert story.credit.top[0] == "1.1.2"


def test_a_draft_is_held_against_the_best_and_not_against_the_baseline(story):
    story.add("1.1")
    story.judge("1.1", 5.0, Verdict.KEPT)
    story.add("1.2", "draft")
    story.judge("1.2", 4.0)
    assert story.reward("1.2") == 0
    assert story.credit.top == ("1.1", "1.2", "1")


def test_a_gain_within_noise_earns_nothing_unless_the_judge_kept_it(story):
    run = story.history.runs[1]
    story.history.runs[1] = run.with_part(Cohorts(noise={"": {"score": 0.1}}))
    story.add("1.1")
    story.judge("1.1", 1.05)
    assert story.reward("1.1") == 0
    story.add("1.2")
    story.judge("1.2", 1.05, Verdict.KEPT)
    assert story.reward("1.2") == 1.0


def test_what_is_no_better_than_the_baseline_is_worth_nothing(story):
    story.add("1.1", "draft")
    story.judge("1.1", 0.5)
    assert story.credit.arm("draft", "").reward == 0
    assert story.credit.top == ("1", "1.1"), "it is a partner for crossovers all the same"


def test_what_fails_or_is_refused_costs_and_brings_nothing(story):
    story.call("a", tokens=40)
    story.add("1.1", calls=("a",))
    story.judge("1.1", None)
    story.call("b", tokens=60)
    story.record(ProposalRefused(1, Pool.ATTEMPT, "diff", "unreadable", calls=("b",)))
    assert story.credit.arm("diff", "m") == ArmCredit(2, 1, 0.0, 1, 2.0, 100.0, pytest.approx(0.1), 2.0)


def test_proposals_of_one_reply_share_its_cost_and_a_repeated_call_is_paid_by_the_first(story):
    story.call("wrong", tokens=10)
    story.call("right", tokens=90)
    story.add("1.1", calls=("wrong", "right"), remaining=1)
    story.add("1.2", calls=("right",), at=1)
    assert story.history[NodeId("1.1")].tokens == 50
    assert story.history[NodeId("1.2")].tokens == 45
    assert story.credit.arm("diff", "m").calls == 1.5


def test_a_quarantined_node_was_not_asked_for(story):
    story.add("1.1", "mutate:number")
    story.record(NodeJudged(NodeId("1.1"), Verdict.QUARANTINED, "lost"))
    assert story.credit.arm("mutate", "").asked == 0


def test_a_withdrawn_node_leaves_the_best(story):
    story.add("1.1")
    story.judge("1.1", 9.0, Verdict.KEPT)
    story.record(VerdictWithdrawn(NodeId("1.1"), Verdict.REJECTED, "it cheats"))
    assert story.credit.top == ("1",)
    assert story.credit.arm("diff", "").reward == 0, "nor does its arm keep what it earned"


def test_the_eight_best_are_kept(story):
    for number in range(1, 13):
        story.add(f"1.{number}")
        story.judge(f"1.{number}", 20.0 - number)
    assert story.credit.top == tuple(f"1.{number}" for number in range(1, 9))
