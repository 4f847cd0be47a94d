"""Which nodes of a search are worth combining, and whose files nobody needs any more."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, score_metric
from loopty.domain.trial import Pool, Verdict
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.search_summary import PoolMember
from loopty.record.sessions import Session
from loopty.record.trials import Trials
from loopty.record.verdicts import Incumbents
from loopty.show.rated_nodes import rated_nodes

_MOST_CANDIDATES = 128
_DIVERSITY = 0.5
"""How much a candidate that is like a member loses, in units of the distance from the best to the last one."""
_USABLE = (Verdict.KEPT, Verdict.DISCARDED, Verdict.INCONCLUSIVE)


class _Candidate(Record):
    node: Node
    score: float

    @property
    def content(self) -> frozenset[str]:
        """Return what it brings: the digests of its artifacts; without any, its files."""
        artifacts = self.node.outcome.artifacts.values() if self.node.outcome else ()
        return frozenset(artifacts or (self.node.tree,))


def choose_pool(history: History, run: int, members: int, patches: bool = False) -> list[PoolMember]:
    """Choose the best node with artifacts, then those with the best sum of score and difference to the chosen.

    Nodes compete by their scores under the run's present fingerprint, also those that did not beat the best of
    their time: what is no better by itself may still add something. None that a gate or the verifier rejected is
    among them. With `patches`, the changes themselves are combined, and a node needs no artifacts.
    """
    candidates, direction = _candidates(history, run, patches)
    chosen: list[_Candidate] = []
    reasons: list[str] = []
    while candidates and len(chosen) < members:
        worth = [_worth(candidate, candidates, chosen, direction) for candidate in candidates]
        index = max(range(len(candidates)), key=worth.__getitem__)
        found = candidates.pop(index)
        alike = max((_likeness(found, other) for other in chosen), default=0.0)
        reasons.append(f"{100 * (1 - alike):.0f} % unlike the members before it" if chosen else "the best node")
        chosen.append(found)
        candidates = [other for other in candidates if other.content != found.content]
    return [
        PoolMember(
            one.node.id,
            one.score,
            one.node.outcome.artifacts if one.node.outcome else {},
            reason,
            one.node.handle,
        )
        for one, reason in zip(chosen, reasons, strict=True)
    ]


def _candidates(history: History, run: int, patches: bool) -> tuple[list[_Candidate], Direction]:
    metrics = history.counting_metrics(run)
    if not metrics:
        return [], Direction.MAX
    direction = score_metric(metrics).direction
    scored = [
        (direction.sign * node.score, -node.order, node.handle)
        for node in rated_nodes(history, run).nodes
        if node.score is not None and node.is_comparable and node.pool is Pool.ATTEMPT
    ]
    found = []
    for score, _, handle in heapq.nlargest(_MOST_CANDIDATES, scored):
        node = history[history.node_of_handle(handle)]
        is_whole = node.verdict in _USABLE and not node.is_invalidated and not node.files_removed
        if is_whole and node.outcome and (node.outcome.artifacts or (patches and node.id.parent)):
            found.append(_Candidate(node, direction.sign * score))
    return found, direction


def _worth(
    candidate: _Candidate, others: Sequence[_Candidate], chosen: Sequence[_Candidate], direction: Direction
) -> float:
    scores = [direction.sign * one.score for one in (*others, *chosen)]
    spread = (max(scores) - min(scores)) or 1.0
    place = (direction.sign * candidate.score - min(scores)) / spread
    return place - _DIVERSITY * max((_likeness(candidate, other) for other in chosen), default=0.0)


def _likeness(one: _Candidate, other: _Candidate) -> float:
    """Return the larger of the shares that two nodes have in common: of lineage, and of parameters."""
    mine, theirs = one.node.id.lineage, other.node.id.lineage
    shared = sum(left == right for left, right in zip(mine, theirs, strict=False))
    lineage = (shared - 1) / max(len(mine), len(theirs)) if one.node.tree != other.node.tree else 0.0
    names = {*one.node.params, *other.node.params}
    equal = sum(one.node.params.get(name) == other.node.params.get(name) for name in names)
    return max(lineage, equal / len(names) if names else 0.0)


_LOST = (Verdict.DISCARDED, Verdict.REJECTED, Verdict.QUARANTINED)


def removable_nodes(history: History, is_alive: Callable[[str], bool], before: float) -> list[NodeId]:
    """List lost nodes added before this time, without a younger or needed descendant; the first to go first.

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
    """Say whether anyone may still want to run or use the node."""
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
