"""The calls of models in a run: what each of them cost and led to. They are in the events alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from loopty.domain.ids import NodeId
from loopty.domain.model import CACHED_CALL, Role
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.event import Recorded
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import ProposalRefused
from loopty.record.verdicts import NodeJudged

NOT_TAKEN = "not taken"
"""Nobody has made a proposal of its reply so far."""


@dataclass(slots=True)
class ModelCall:
    """One request."""

    reserved: CallReserved
    at: float
    """When it was made, in seconds since the epoch."""
    settled: CallSettled | None = None
    """None while it is in flight."""
    new_nodes: list[NodeId] = field(default_factory=list)
    refused_proposals: list[ProposalRefused] = field(default_factory=list)
    """The proposals that it was a part of, and that got no trial."""
    taken_indexes: set[int] = field(default_factory=set)
    """Which proposals of its reply were."""
    remaining: int = 0
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
        return self.new_nodes or ([about] if about and self.reserved.role != Role.EVOLVER else [])

    @property
    def own_refusals(self) -> list[ProposalRefused]:
        """Those of its own reply; the others are of calls that asked again."""
        return [event for event in self.refused_proposals if event.calls[-1] == self.reserved.call]

    @property
    def fruitless_reason(self) -> str:
        """What became of it where it has nothing to show; empty otherwise."""
        if self.settled is None or self.new_nodes:
            return ""
        if self.settled.lost:
            return "lost with its process"
        if self.settled.failure:
            return "failed"
        if self.refused_proposals and self.reserved.pool:
            return f"refused: {self.refused_proposals[-1].objection}"
        return NOT_TAKEN if self.reserved.pool else ""


@dataclass(frozen=True, slots=True)
class RunCalls:
    calls: Mapping[str, ModelCall]
    """By name, the oldest first."""
    given_again: int
    """Requests that were answered from memory."""
    kept: frozenset[NodeId]
    """The nodes of the run that were kept, the baseline not counted."""
    last_refused_parent: NodeId | None
    """What the attempt that was refused last was to change, where a model had made it."""


def calls_of_run(events: Iterable[Recorded], run: int) -> RunCalls:
    """One pass over the events."""
    found: dict[str, ModelCall] = {}
    verdicts: dict[NodeId, Verdict] = {}
    again: set[str] = set()
    last: ProposalRefused | None = None
    for item in events:
        event = item.event
        if isinstance(event, CallReserved) and event.run == run:
            if event.operator == CACHED_CALL:
                again.add(event.call)
            else:
                found[event.call] = ModelCall(event, item.at)
        elif isinstance(event, CallSettled) and (call := found.get(event.call)):
            call.settled = call.settled or event  # a process taken for dead may settle late, and in vain
        elif isinstance(event, NodeAdded | ProposalRefused):
            _link_result(found, event)
            if isinstance(event, ProposalRefused) and event.run == run and event.pool is Pool.ATTEMPT:
                last = event
        elif isinstance(event, NodeJudged) and event.node.run == run and event.node.parent:
            verdicts[event.node] = event.verdict
    kept = frozenset(node for node, verdict in verdicts.items() if verdict is Verdict.KEPT)
    asked = found.get(last.calls[-1]) if last and last.calls else None
    return RunCalls(found, len(again), kept, asked.reserved.node if asked else None)


def calls_of_node(events: Iterable[Recorded], node: Node) -> tuple[ModelCall, ...]:
    """Those that the node's proposal took, its screening first; then those in which the verifier looked at it."""
    known = calls_of_run(events, node.id.run).calls
    took = (known[name] for name in node.calls if name in known)
    # What led to a proposal is about a change of this node, and belongs to what came of it.
    about = (
        call
        for call in known.values()
        if call.reserved.node == node.id and not (call.new_nodes or call.refused_proposals)
    )
    return (*took, *(call for call in about if call.reserved.role == Role.VERIFIER))


def fruitless_calls_of(events: Iterable[Recorded], node: Node) -> tuple[ModelCall, ...]:
    """Those that were to change the node and were in vain, wholly or in part; the oldest first."""
    known = calls_of_run(events, node.id.run).calls.values()
    asked = (call for call in known if call.reserved.pool and call.reserved.node == node.id)
    return tuple(call for call in asked if call.fruitless_reason or call.own_refusals)


def _link_result(found: Mapping[str, ModelCall], event: NodeAdded | ProposalRefused) -> None:
    for name in event.calls:
        if call := found.get(name):
            if isinstance(event, NodeAdded):
                call.new_nodes.append(event.node)
            else:
                call.refused_proposals.append(event)
            call.taken_indexes.add(event.index_in_reply)
            size = event.index_in_reply + event.remaining_in_reply + 1 if name == event.calls[-1] else 0
            call.remaining = max(size - len(call.taken_indexes), 0)
