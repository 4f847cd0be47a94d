"""The model calls of a run: what each cost and led to. Only the events have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from loopty.domain.ids import NodeId
from loopty.domain.model import CACHED_CALL, Role
from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.event import Recorded
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import ProposalRefused

NOT_TAKEN = "not taken"
"""No proposal has been made from its reply so far."""


@dataclass(slots=True)
class ModelCall:
    """One request to a model."""

    reserved: CallReserved
    at: float
    """When the request was made, in seconds since the epoch."""
    settled: CallSettled | None = None
    """None while the call is in flight."""
    new_nodes: list[NodeId] = field(default_factory=list)
    """The nodes made from its reply."""
    refused_proposals: list[ProposalRefused] = field(default_factory=list)
    """Proposals that this call had a part in and that got no trial."""
    taken_indexes: set[int] = field(default_factory=set)
    """The positions in its reply of the proposals that were taken."""
    remaining: int = 0
    """How many proposals in its reply have not been taken."""

    @property
    def tokens(self) -> int:
        """The reserved tokens until the call is settled, then the charged ones."""
        return (self.settled or self.reserved).tokens

    @property
    def money_usd(self) -> float:
        return (self.settled or self.reserved).money_usd

    @property
    def nodes(self) -> list[NodeId]:
        """The nodes it paid for: those made from its reply, or the one that was measured or reviewed."""
        about = self.reserved.node
        return self.new_nodes or ([about] if about and self.reserved.role != Role.EVOLVER else [])

    @property
    def own_refusals(self) -> list[ProposalRefused]:
        """The refused proposals of its own reply; the others belong to later calls that asked again."""
        return [event for event in self.refused_proposals if event.calls[-1] == self.reserved.call]

    @property
    def fruitless_reason(self) -> str:
        """Why the call led to no node; empty if it led to one, was not meant to, or is still in flight."""
        if self.settled is None or self.new_nodes:
            return ""
        if self.settled.lost:
            return "its process died"
        if self.settled.failure:
            return "failed"
        if self.refused_proposals and self.reserved.pool:
            return f"refused: {self.refused_proposals[-1].objection}"
        return NOT_TAKEN if self.reserved.pool else ""


class RunCalls(Record):
    """All model calls of a run."""

    calls: Mapping[str, ModelCall]
    """By name, oldest first."""
    given_again: int
    """Requests answered from memory."""
    last_refused_parent: NodeId | None
    """The node that the last refused attempt was to change; None if no model had made it."""


def calls_of_run(events: Iterable[Recorded], run: int) -> RunCalls:
    """The calls of a run, in one pass over the events about calls."""
    by_name: dict[str, ModelCall] = {}
    again: set[str] = set()
    last: ProposalRefused | None = None
    for item in events:
        event = item.event
        if isinstance(event, CallReserved) and event.run == run:
            if event.operator == CACHED_CALL:
                again.add(event.call)
            else:
                by_name[event.call] = ModelCall(event, item.at)
        elif isinstance(event, CallSettled) and (call := by_name.get(event.call)):
            call.settled = call.settled or event  # a process presumed dead may settle late, without effect
        elif isinstance(event, NodeAdded | ProposalRefused):
            _link_result(by_name, event)
            if isinstance(event, ProposalRefused) and event.run == run and event.pool is Pool.ATTEMPT:
                last = event
    refused = by_name.get(last.calls[-1]) if last and last.calls else None
    return RunCalls(by_name, len(again), refused.reserved.node if refused else None)


def calls_of_node(events: Iterable[Recorded], node: Node) -> tuple[ModelCall, ...]:
    """The calls behind the node's proposal; then those in which the verifier looked at it."""
    known = calls_of_run(events, node.id.run).calls
    took = (known[name] for name in node.calls if name in known)
    # A call that led to a proposal was to change this node; it belongs to the proposal's own node.
    about = (
        call
        for call in known.values()
        if call.reserved.node == node.id and not (call.new_nodes or call.refused_proposals)
    )
    return (*took, *(call for call in about if call.reserved.role == Role.VERIFIER))


def fruitless_calls_of(events: Iterable[Recorded], node: Node) -> tuple[ModelCall, ...]:
    """Calls that were to change the node and gave nothing, at least in part; oldest first."""
    known = calls_of_run(events, node.id.run).calls.values()
    proposing = (call for call in known if call.reserved.pool and call.reserved.node == node.id)
    return tuple(call for call in proposing if call.fruitless_reason or call.own_refusals)


def _link_result(by_name: Mapping[str, ModelCall], event: NodeAdded | ProposalRefused) -> None:
    """Add a new node or a refused proposal to the calls that made it."""
    for name in event.calls:
        if call := by_name.get(name):
            if isinstance(event, NodeAdded):
                call.new_nodes.append(event.node)
            else:
                call.refused_proposals.append(event)
            call.taken_indexes.add(event.index_in_reply)
            size = event.index_in_reply + event.remaining_in_reply + 1 if name == event.calls[-1] else 0
            call.remaining = max(size - len(call.taken_indexes), 0)
