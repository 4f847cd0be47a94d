"""Which nodes of a search are worth combining: good ones that differ from each other."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from loopty.domain.objective import Direction, score_metric
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.record.frozen_pools import PoolMember
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.views.rated_nodes import rated_nodes

_MOST_CANDIDATES = 128
_DIVERSITY = 0.5
"""How much a candidate that is like a member loses, in units of the distance from the best to the last one."""
_USABLE = (Verdict.KEPT, Verdict.DISCARDED, Verdict.INCONCLUSIVE)


class _Candidate(Record):
    node: Node
    score: float

    @property
    def content(self) -> frozenset[str]:
        """What it brings: the digests of its artifacts; without any, its files."""
        artifacts = self.node.outcome.artifacts.values() if self.node.outcome else ()
        return frozenset(artifacts or (self.node.tree,))


def choose_pool(history: History, run: int, members: int, patches: bool = False) -> list[PoolMember]:
    """The best node with artifacts, then those with the best sum of score and difference from the ones chosen.

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
        if node.score is not None and node.kind.is_comparable and node.kind.pool is Pool.ATTEMPT
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
    """The larger of the shares that two nodes have in common: of their lineages, and of their parameters."""
    mine, theirs = one.node.id.lineage, other.node.id.lineage
    shared = sum(left == right for left, right in zip(mine, theirs, strict=False))
    lineage = (shared - 1) / max(len(mine), len(theirs)) if one.node.tree != other.node.tree else 0.0
    names = {*one.node.params, *other.node.params}
    equal = sum(one.node.params.get(name) == other.node.params.get(name) for name in names)
    return max(lineage, equal / len(names) if names else 0.0)
