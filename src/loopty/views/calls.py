"""The calls of models in a run: what each of them cost and led to. They are in the events alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from loopty.core.events import NodeAdded, NodeJudged, ProposalRefused, Recorded, Reserved, Settled
from loopty.core.ids import NodeId
from loopty.core.model import GIVEN_AGAIN, Role
from loopty.core.outcome import Verdict
from loopty.core.records import Node


@dataclass(slots=True)
class Call:
    """One request."""

    reserved: Reserved
    settled: Settled | None = None
    """None while it is in flight."""
    gave: list[NodeId] = field(default_factory=list)
    objection: str = ""
    taken: set[int] = field(default_factory=set)
    """Which proposals of its reply were."""
    left: int = 0
    """Proposals in its reply that nobody has taken."""

    @property
    def tokens(self) -> int:
        """As reserved, until it is settled."""
        return (self.settled or self.reserved).tokens

    @property
    def money_usd(self) -> float:
        return (self.settled or self.reserved).money_usd

    @property
    def nodes(self) -> list[NodeId]:
        """The nodes that it was for: those that it gave, or the one that was measured or judged."""
        about = self.reserved.node
        return self.gave or ([about] if about and self.reserved.role != Role.EVOLVER else [])

    @property
    def in_vain(self) -> str:
        """What became of it where it has nothing to show; empty otherwise."""
        if self.settled is None or self.gave:
            return ""
        if self.settled.lost:
            return "lost with its process"
        if self.settled.failure:
            return "failed"
        if self.objection:
            return f"refused: {self.objection}"
        return "not taken" if self.reserved.pool else ""


@dataclass(frozen=True, slots=True)
class Calls:
    calls: Mapping[str, Call]
    """By name, the oldest first."""
    given_again: int
    """Requests that were answered from memory."""
    kept: frozenset[NodeId]
    """The nodes of the run that were kept, the baseline not counted."""


def calls(recorded: Iterable[Recorded], run: int) -> Calls:
    """One pass over the events."""
    found: dict[str, Call] = {}
    verdicts: dict[NodeId, Verdict] = {}
    again: set[str] = set()
    for item in recorded:
        event = item.event
        if isinstance(event, Reserved) and event.run == run:
            if event.operator == GIVEN_AGAIN:
                again.add(event.call)
            else:
                found[event.call] = Call(event)
        elif isinstance(event, Settled) and (call := found.get(event.call)):
            call.settled = call.settled or event  # a process taken for dead may settle late, and in vain
        elif isinstance(event, NodeAdded | ProposalRefused):
            _led_to(found, event)
        elif isinstance(event, NodeJudged) and event.node.run == run and event.node.parent:
            verdicts[event.node] = event.verdict
    kept = frozenset(node for node, verdict in verdicts.items() if verdict is Verdict.KEPT)
    return Calls(found, len(again), kept)


def calls_of(recorded: Iterable[Recorded], node: Node) -> tuple[Call, ...]:
    """Those that the node's proposal took, in order; then those in which the verifier looked at it."""
    known = calls(recorded, node.id.run).calls
    took = (known[name] for name in node.calls if name in known)
    looks = (
        call for call in known.values() if call.reserved.role == Role.VERIFIER and call.reserved.node == node.id
    )
    return (*took, *looks)


def _led_to(found: Mapping[str, Call], event: NodeAdded | ProposalRefused) -> None:
    for name in event.calls:
        if call := found.get(name):
            if isinstance(event, NodeAdded):
                call.gave.append(event.node)
            else:
                call.objection = event.objection
            call.taken.add(event.item)
            size = event.item + event.left + 1 if name == event.calls[-1] else 0
            call.left = max(size - len(call.taken), 0)
