"""The calls of a node, from the ledger."""

from __future__ import annotations

from loopty.core.events import NodeAdded, Reserved, Settled
from loopty.core.ids import NodeId
from loopty.core.model import Usage
from loopty.core.outcome import Pool
from loopty.views.calls import Call, calls_of

from .story import OWNER, Story

NODE = NodeId("1.1")


def reserved(call: str, role: str = "evolver", node: str = "1", pool: Pool | None = Pool.ATTEMPT) -> Reserved:
    return Reserved(1, call, role, 900, 0.9, OWNER, "lab:large", "code:diff", NodeId(node), pool)


def calls(story: Story) -> tuple[Call, ...]:
    return calls_of(story.ledger.read(), story.history[NODE])


def proposed(*taken: str) -> NodeAdded:
    return NodeAdded(NODE, Pool.ATTEMPT, "code:diff", "a change", "b" * 40, "t1", calls=taken)


def test_the_calls_of_a_proposal_are_told_in_order_with_what_they_cost():
    story = Story()
    story.tell(reserved("first"), Settled(1, "first", 100, 0.1, Usage(80, 20), "no reply"))
    story.tell(reserved("other"), Settled(1, "other", 1, 0.1))
    story.tell(reserved("second"), Settled(1, "second", 200, 0.2, Usage(150, 50)))
    story.tell(proposed("first", "second"))
    first, second = calls(story)
    assert (first.reserved, first.tokens, first.money_usd) == (reserved("first"), 100, 0.1)
    assert first.settled == Settled(1, "first", 100, 0.1, Usage(80, 20), "no reply")
    assert (second.reserved.call, second.tokens, second.settled.failure) == ("second", 200, "")


def test_the_looks_of_the_verifier_at_the_node_are_told_too():
    story = Story()
    story.tell(reserved("made"), Settled(1, "made", 1, 0.0), proposed("made"))
    story.tell(reserved("review", "verifier", "1.1", None), Settled(1, "review", 5, 0.5))
    story.tell(reserved("of another", "verifier", "1", None))
    story.tell(reserved("its benchmark", "user", "1.1", None))
    story.tell(reserved("its child", "evolver", "1.1"))
    assert [call.reserved.call for call in calls(story)] == ["made", "review"]


def test_a_call_in_flight_and_a_lost_one_are_told_as_reserved():
    story = Story()
    story.tell(proposed())
    story.tell(reserved("lost", "verifier", "1.1", None), Settled(1, "lost", 900, 0.9, lost=True))
    story.tell(reserved("flying", "verifier", "1.1", None))
    lost, flying = calls(story)
    assert (lost.tokens, lost.settled.lost) == (900, True)
    assert (flying.tokens, flying.settled) == (900, None)


def test_a_node_that_no_model_made_has_no_calls():
    story = Story()
    story.tell(reserved("other"), proposed())
    assert calls(story) == ()
