"""Take a verdict back: discard a node, invalidate a cheat, apply a gate that is added late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from loopty.domain.benchmark import Gate, metric_refusal
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool, Verdict
from loopty.engine.protocols import Trial
from loopty.judge import revisions
from loopty.kit.records import Record
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeGates
from loopty.record.verdicts import Incumbents, NodeReopened, NodeRestored, VerdictWithdrawn
from loopty.session import hand_decisions
from loopty.session.context import CampaignContext
from loopty.session.lookup import parse_reason
from loopty.session.stoppable import run_until_stopped


class VerdictChange(Record):
    """What a withdrawal changed."""

    withdrawn: tuple[NodeId, ...]
    """The nodes whose verdicts were replaced."""
    reopened: tuple[NodeId, ...]
    """The nodes that lost only against one of them: without a verdict until they are measured again."""
    best: NodeId | None
    """The best node of the run now."""


def discard(context: CampaignContext, node: NodeId, why: str) -> VerdictChange:
    """Take back that a node was kept."""
    text = parse_reason(why)
    return _record(context, node, lambda history: revisions.discard_node(history, node, text))


def invalidate(context: CampaignContext, node: NodeId, why: str) -> VerdictChange:
    """Take back everything about a node that cheats, and about its descendants."""
    text = parse_reason(why)
    return _record(context, node, lambda history: revisions.invalidate_node(history, node, text))


def restore(context: CampaignContext, node: NodeId, why: str, unsafe: bool) -> VerdictChange:
    """Take a discard or an invalidation back: what was kept waits for a verdict again, by a new comparison."""
    text = parse_reason(why)
    for each in revisions.nodes_to_restore(context.history, node):
        found = context.history[each]
        for gate in NodeGates.of(context.history.runs[node.run]).gates_of(each) if found.outcome else ():
            if reason := _refusal(context, found, gate, unsafe):
                raise Misuse(f"node {each} fails the gate {gate.name} ({reason}): it stays as it is")

    def decide(history: History) -> Iterator[Event]:
        yield from revisions.restore_nodes(history, revisions.nodes_to_restore(history, node), text)

    return _record(context, node, decide)


def add_gate(context: CampaignContext, node: NodeId, gate: Gate, unsafe: bool) -> VerdictChange:
    """Add a gate, and apply it to the nodes below that were kept or may still be: who fails it is rejected."""
    hand_decisions.add_gate(context.history, node, gate)
    known: dict[NodeId, str | None] = {}

    def unknown(history: History) -> list[NodeId]:
        return [each for each in _nodes_to_check(history, node, gate) if each not in known]

    def decide(history: History) -> Iterator[Event]:
        if new := unknown(history):
            raise Misuse(f"node {new[0]} was measured meanwhile: add the gate again")
        yield from hand_decisions.add_gate(history, node, gate)
        nodes = _nodes_to_check(history, node, gate)
        yield from revisions.reject_by_gate(history, {each: reason for each in nodes if (reason := known[each])})

    while nodes := unknown(context.recorder.refresh()):
        for each in nodes:
            known[each] = _refusal(context, context.history[each], gate, unsafe)
    return _record(context, node, decide)


def _refusal(context: CampaignContext, node: Node, gate: Gate, unsafe: bool) -> str | None:
    """Say why a node that was measured fails the gate, or None."""
    if gate.metric:
        return metric_refusal([gate], node.outcome.metrics if node.outcome else {})
    run = context.history.runs[node.id.run]
    trial = Trial(node, context.history[run.root], 0, Pool.CHECK, run.seed, (gate,))
    (result,) = run_until_stopped(lambda cancel: context.run_gates(unsafe)(trial, cancel))
    if result.stopped:
        raise Misuse("stopped: the gate was not added")
    return result.refusal


def _nodes_to_check(history: History, top: NodeId, gate: Gate) -> list[NodeId]:
    """List the nodes from this one down whose trials did not run the gate, and that are kept or may still be."""

    def is_concerned(node: Node) -> bool:
        has_result = node.outcome is not None and node.outcome.is_finished
        is_under_way = node.verdict is None and (has_result or (node.running and not gate.metric))
        return node.verdict is Verdict.KEPT or is_under_way

    # Without the baseline: it is what everything is compared with.
    below = (each for each in history.ids if each.is_within(top) and each.parent)
    return [each for each in below if is_concerned(history[each])]


def _record(context: CampaignContext, node: NodeId, decide: Callable[[History], Iterable[Event]]) -> VerdictChange:
    events = [recorded.event for recorded in context.recorder.record(decide)]
    change = VerdictChange(
        tuple(event.node for event in events if isinstance(event, VerdictWithdrawn)),
        tuple(
            event.node
            for event in events
            if isinstance(event, NodeReopened | NodeRestored) and context.history[event.node].verdict is None
        ),
        Incumbents.of(context.history.runs[node.run], Pool.ATTEMPT).best,
    )
    for each in (*change.withdrawn, *change.reopened):
        context.files.conclude(context.history[each], context.history)
    return change
