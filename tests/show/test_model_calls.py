"""The calls of a node, from the ledger."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.proposal import Objection
from loopty.domain.trial import Pool
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.show.calls import ModelCall, calls_of_node, fruitless_calls_of
from loopty.show.calls import calls_of_run as all_calls

from .story import OWNER, Story

NODE = NodeId("1.1")


def reserved(call: str, role: str = "evolver", node: str = "1", pool: Pool | None = Pool.ATTEMPT) -> CallReserved:
    return CallReserved(1, call, role, 900, 0.9, OWNER, "lab:large", "code:diff", NodeId(node), pool)


def calls(story: Story) -> tuple[ModelCall, ...]:
    return calls_of_node(story.ledger.read_calls(), story.history[NODE])


def node_from(*calls: str) -> NodeAdded:
    return NodeAdded(NODE, Pool.ATTEMPT, "code:diff", "a change", "b" * 40, "f1" * 20, calls=calls)


def test_the_calls_of_a_proposal_come_in_order_with_their_cost():
    story = Story()
    story.tell(reserved("first"), CallSettled(1, "first", 100, 0.1, Usage(80, 20), "no reply"))
    story.tell(reserved("other"), CallSettled(1, "other", 1, 0.1))
    story.tell(reserved("second"), CallSettled(1, "second", 200, 0.2, Usage(150, 50)))
    story.tell(node_from("first", "second"))
    first, second = calls(story)
    assert (first.reserved, first.tokens, first.money_usd) == (reserved("first"), 100, 0.1)
    assert first.settled == CallSettled(1, "first", 100, 0.1, Usage(80, 20), "no reply")
    assert (second.reserved.call, second.tokens, second.settled.failure) == ("second", 200, "")


def test_the_verifiers_calls_about_the_node_are_included():
    story = Story()
    story.tell(reserved("made"), CallSettled(1, "made", 1, 0.0), node_from("made"))
    story.tell(reserved("review", "verifier", "1.1", None), CallSettled(1, "review", 5, 0.5))
    story.tell(reserved("of another", "verifier", "1", None))
    story.tell(reserved("its benchmark", "user", "1.1", None))
    story.tell(reserved("its child", "evolver", "1.1"))
    assert [call.reserved.call for call in calls(story)] == ["made", "review"]


def test_a_call_in_flight_or_lost_costs_what_was_reserved():
    story = Story()
    story.tell(node_from())
    story.tell(reserved("lost", "verifier", "1.1", None), CallSettled(1, "lost", 900, 0.9, lost=True))
    story.tell(reserved("in flight", "verifier", "1.1", None))
    lost, in_flight = calls(story)
    assert (lost.tokens, lost.settled.lost) == (900, True)
    assert (in_flight.tokens, in_flight.settled) == (900, None)


def test_a_node_that_no_model_made_has_no_calls():
    story = Story()
    story.tell(reserved("other"), node_from())
    assert calls(story) == ()


def refusal_of(*calls: str, index: int = 0, remaining: int = 0, pool: Pool = Pool.ATTEMPT) -> ProposalRefused:
    return ProposalRefused(1, pool, "code:diff", f"no {index}", Objection.APPLY, calls, remaining, index)


def fruitless(story: Story, node: str = "1") -> dict[str, str]:
    found = fruitless_calls_of(story.ledger.read_calls(), story.history[NodeId(node)])
    return {call.reserved.call: call.fruitless_reason for call in found}


def test_fruitless_calls_to_change_a_node_come_oldest_first():
    story = Story()
    story.tell(reserved("failed"), CallSettled(1, "failed", 0, 0.0, failure="503"))
    story.tell(reserved("good"), CallSettled(1, "good", 9, 0.1), node_from("good"))
    story.tell(
        reserved("first"), CallSettled(1, "first", 9, 0.1), reserved("again"), CallSettled(1, "again", 9, 0.1)
    )
    story.tell(refusal_of("first", "again"))
    story.tell(reserved("lost"), CallSettled(1, "lost", 900, 0.9, lost=True))
    story.tell(reserved("unread"), CallSettled(1, "unread", 9, 0.1), reserved("in flight"))
    assert list(fruitless(story).items()) == [
        ("failed", "failed"),
        ("first", "refused: apply"),
        ("again", "refused: apply"),
        ("lost", "its process died"),
        ("unread", "not taken"),
    ]
    assert fruitless(story, "1.1") == {}


def test_calls_by_others_about_the_node_were_not_to_change_it():
    story = Story()
    for role in ("verifier", "user", "evolver"):
        story.tell(reserved(role, role, "1", None), CallSettled(1, role, 0, 0.0, failure="503"))
    story.tell(
        node_from(),
        reserved("other"),
        reserved("child", node="1.1"),
        CallSettled(1, "child", 0, 0.0),
        refusal_of("child"),
    )
    assert fruitless(story) == {}
    assert fruitless(story, "1.1") == {"child": "refused: apply"}


def test_a_partly_refused_batch_comes_with_its_nodes():
    story = Story()
    story.tell(
        reserved("first"), CallSettled(1, "first", 9, 0.1), reserved("batch"), CallSettled(1, "batch", 9, 0.1)
    )
    story.tell(
        node_from("first", "batch"), refusal_of("first", "batch", index=1), refusal_of("first", "batch", index=2)
    )
    (batch,) = fruitless_calls_of(story.ledger.read_calls(), story.history[NodeId("1")])
    assert (batch.reserved.call, batch.fruitless_reason, batch.new_nodes) == ("batch", "", [NODE])
    assert [event.reason for event in batch.own_refusals] == ["no 1", "no 2"]
    assert batch.at > 1000


def test_the_node_of_the_last_refused_attempt_is_known_if_a_model_made_it():
    story = Story()
    story.tell(reserved("made"), CallSettled(1, "made", 9, 0.1), refusal_of("made"), refusal_of(pool=Pool.CONTROL))
    assert all_calls(story.ledger.read_calls(), 1).last_refused_parent == "1"
    story.refuses()
    assert all_calls(story.ledger.read_calls(), 1).last_refused_parent is None
