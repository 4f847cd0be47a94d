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
from loopty.record.trials import TrialEnded, TrialStarted
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

    def place(self, node: str) -> int:
        return self.history[NodeId(node)].place


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_node_is_worth_its_place_among_the_best(story):
    for number, score in enumerate((3.0, 2.0, 4.0), start=1):
        story.call(f"c{number}")
        story.add(f"1.{number}", calls=(f"c{number}",))
        story.judge(f"1.{number}", score)
    assert [story.place(f"1.{number}") for number in (1, 2, 3)] == [1, 2, 1]
    arm = story.credit.arm("diff", "m")
    assert arm == ArmCredit(asked=3, reward=2.5, trials=3, calls=3.0, tokens=300.0, money_usd=pytest.approx(0.3))
    assert story.credit.top == ("1.3", "1.1", "1.2", "1")


def test_what_is_no_better_than_the_baseline_is_worth_nothing(story):
    story.add("1.1", "draft")
    story.judge("1.1", 0.5)
    assert story.place("1.1") == 0
    assert story.credit.arm("draft", "").reward == 0
    assert story.credit.top == ("1", "1.1"), "it is a partner for crossovers all the same"


def test_what_fails_or_is_refused_costs_and_brings_nothing(story):
    story.call("a", tokens=40)
    story.add("1.1", calls=("a",))
    story.judge("1.1", None)
    story.call("b", tokens=60)
    story.record(ProposalRefused(1, Pool.ATTEMPT, "diff", "unreadable", calls=("b",)))
    assert story.credit.arm("diff", "m") == ArmCredit(2, 1, 0.0, 1, 2.0, 100.0, pytest.approx(0.1))


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


def test_the_eight_best_are_kept_and_others_earn_nothing(story):
    for number in range(1, 13):
        story.add(f"1.{number}")
        story.judge(f"1.{number}", 20.0 - number)
    assert story.credit.top == tuple(f"1.{number}" for number in range(1, 9))
    assert story.place("1.9") == 0
    assert story.credit.arm("diff", "").reward == pytest.approx(sum(1 / place for place in range(1, 9)))
