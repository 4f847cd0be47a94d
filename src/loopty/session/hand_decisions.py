"""What a person or an agent decides about nodes, as pure functions of the history: events, or Misuse."""

from __future__ import annotations

from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import carry_params, identity
from loopty.domain.space import Params
from loopty.domain.trial import SEARCH_POOLS, Verdict
from loopty.engine.protocols import CommittedFiles
from loopty.judge.revisions import may_ask_again
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node, refuse_dropped
from loopty.record.nodes import DraftDropped, GateAdded, NodeGates, NodeSealed
from loopty.record.verdicts import Incumbents, NodeJudged


def seal_node(
    history: History, node: NodeId, files: CommittedFiles, params: Params | None = None, operator: str = ""
) -> list[Event]:
    """End a draft, with these values of its parameters; by default its own. `operator` says who does that.

    Refuses one that is no new experiment, before it costs an attempt.
    """
    found = history[node]
    if not found.draft:
        return []
    refuse_dropped(found)
    point = carry_params(found.declared, files.declared, found.params if params is None else params)
    if reason := _repetition(history, found, files, point):
        raise Misuse(f"{found.name} {reason}; edit it, or drop it with `loopty draft drop {found.name}`")
    given = point if point != found.params else None
    return [NodeSealed(node, files.commit, files.tree, files.declared, given, operator)]


def _repetition(history: History, draft: Node, files: CommittedFiles, params: Params) -> str | None:
    """Say why the draft is no new experiment, or None."""
    parent = history[draft.id.parent] if draft.id.parent else None
    if parent and identity(files.tree, params) == parent.identity:
        return f"changes nothing of {parent.name}"
    twins = (history.twin(draft.id.run, pool, identity(files.tree, params)) for pool in SEARCH_POOLS)
    if twin := next((history[node] for node in twins if node), None):
        if may_ask_again(twin):
            return f"is the same as {twin.name}, which is undecided: `loopty node recheck {twin.name}` asks again"
        verdict = twin.verdict or "no verdict yet"
        return f"is the same as {twin.name} ({verdict}), which `loopty measure replay {twin.name}` measures again"
    return None


def drop_draft(history: History, node: NodeId) -> list[Event]:
    """End a draft that will not run."""
    found = history[node]
    if not found.draft:
        state = found.verdict or ("running" if found.running else "sealed")
        raise Misuse(f"{found.name} is not a draft ({state}): only drafts can be dropped")
    return [] if found.dropped else [DraftDropped(node)]


def accept_held(history: History, node: NodeId, why: str) -> list[Event]:
    """Keep a held node by hand; it must still beat the incumbent that it was compared with."""
    found = history[node]
    if found.verdict is not Verdict.HELD:
        raise Misuse(f"{found.name} is not held ({found.verdict or 'it has no verdict'}): nothing to accept")
    best = Incumbents.of(history.runs[node.run], found.pool).best
    if best != found.against:
        raise Misuse(
            f"{found.name} was not compared with {history.name(best) if best else 'any node'}, the best one now: "
            f"make a new one from it with `loopty draft new --parent {found.name}`"
        )
    return [NodeJudged(node, Verdict.KEPT, f"accepted by hand: {why}", found.against, found.effect)]


def add_gate(history: History, node: NodeId, gate: Gate) -> list[Event]:
    """Add a gate for a node and its descendants; its name must be new among the gates that apply there."""
    by_node = NodeGates.of(history.runs[history[node].id.run]).by_node
    related = (other for other in map(NodeId, by_node) if node.is_within(other) or other.is_within(node))
    if any(gate.name == known.name for other in related for known in by_node[other]):
        raise Misuse(
            f"{history.name(node)}, or a node above or below it, has a gate {gate.name}: choose another name"
        )
    return [GateAdded(node, gate)]
