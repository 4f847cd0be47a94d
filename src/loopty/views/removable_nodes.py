"""Which nodes' files nobody needs any more: those of discarded nodes that nothing else is built on."""

from __future__ import annotations

from collections.abc import Callable

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.sessions import Session
from loopty.record.trials import Trials
from loopty.record.verdicts import Incumbents

_LOST = (Verdict.DISCARDED, Verdict.REJECTED, Verdict.QUARANTINED)


def removable_nodes(history: History, is_alive: Callable[[str], bool], before: float) -> list[NodeId]:
    """The lost nodes without a younger or needed descendant, added before this time; the first to go first.

    Baselines, kept, held and undecided nodes, drafts, incumbents and all their ancestors are needed, and so is
    everything of a run that a living process works on. A descendant goes before its ancestors.
    """
    living = {run for run in history.runs if _is_living(history, run, is_alive)}
    needed, newest = _incumbents(history), dict[NodeId, float]()
    found: list[tuple[float, int, NodeId]] = []
    for node in map(history.__getitem__, reversed(list(history.ids))):  # children come after their parents
        if node.dropped or node.files_removed:
            continue
        parent, time = node.id.parent, max(node.added_at, newest.get(node.id, 0.0))
        is_needed = node.id in needed or node.id.run in living or _is_open(node) or time >= before
        if parent and is_needed:
            needed.add(parent)
        elif parent:
            newest[parent] = max(time, newest.get(parent, 0.0))
            found.append((time, -node.id.depth, node.id))
    return [node for *_, node in sorted(found)]


def _is_open(node: Node) -> bool:
    """Whether somebody may still want to run or use the node."""
    return node.running or node.verdict not in _LOST


def _is_living(history: History, number: int, is_alive: Callable[[str], bool]) -> bool:
    run = history.runs[number]
    owners = {Session.of(run).driver} - {""}
    owners |= {trial.owner for trial in Trials.of(run).running.values()}
    owners |= {reservation.owner for reservation in Spend.of(run).reservations.values()}
    return any(map(is_alive, owners))


def _incumbents(history: History) -> set[NodeId]:
    parts = (Incumbents.of(run, pool) for run in history.runs.values() for pool in Pool)
    return {node for part in parts for node in (part.best, *part.by_fingerprint.values()) if node}
