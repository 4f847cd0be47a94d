"""Every node of a run as the views of all nodes see it: under the run's present fingerprint, without its page.

A page is decoded only where the facts beside it do not tell everything: where a node has results under several
fingerprints, a verdict that was taken back, or a score in another metric than the one that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Ending
from loopty.domain.pool import SEARCH_POOLS, Pool
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.views.comparable import UNRANKED, comparable_result, has_baseline, has_only_other_fingerprints, score


class RatedNode(NamedTuple):
    """One node of a run."""

    id: NodeId
    handle: int
    pool: Pool
    order: int
    verdict: str | None
    ending: str | None
    """How its own trial ended; None before that."""
    fingerprint: str
    """That of its own trial."""
    own_score: float | None
    """Of its own trial, whatever its ending."""
    score: float | None
    """Under the run's present fingerprint, where that is comparable."""
    is_comparable: bool
    """Whether a ranking under the run's present fingerprint may use it."""
    is_foreign: bool
    """Whether it has results, but none under the run's present fingerprint."""
    repeats: int
    """How often it and the incumbent beside it were measured again."""
    error_rate: float | None
    """Of the comparison in pairs that led to its verdict."""
    record: Node | None
    """The whole node, where the rest does not tell everything about it."""

    @property
    def is_baseline(self) -> bool:
        return "." not in self.id


def rated_nodes(history: History, run: int) -> Sequence[RatedNode]:
    """The nodes of the search, the attempts first, each pool oldest first."""
    record = history.runs[run]
    metrics, present, has_base = (
        history.counting_metrics(run),
        Cohorts.of(record).fingerprint,
        has_baseline(record),
    )
    metric, unranked, finished = metrics[0].name if metrics else None, frozenset(UNRANKED), Ending.FINISHED.value
    found: list[RatedNode] = []
    for row in (row for pool in SEARCH_POOLS for row in history.facts(run, pool)):
        node, handle, pool, facts = row
        order, verdict, ending, fingerprint, measured, value, repeats, error_rate, is_plain = facts
        if not is_plain or (ending is not None and (metric is None or measured != metric)):
            found.append(_rate_whole(history, history[node], present))
            continue
        is_measured, is_here = ending == finished, fingerprint == present
        is_comparable = is_measured and is_here and verdict not in unranked
        found.append(
            RatedNode(
                node,
                handle,
                pool,
                order,
                verdict,
                ending,
                fingerprint,
                value,
                value if is_comparable else None,
                is_comparable,
                has_base and is_measured and not is_here,
                repeats,
                error_rate,
                None,
            )
        )
    return found


def _rate_whole(history: History, node: Node, present: str) -> RatedNode:
    outcome, result = node.outcome, comparable_result(node, present)
    return RatedNode(
        node.id,
        node.handle,
        node.pool,
        node.order,
        node.verdict,
        outcome.ending if outcome else None,
        outcome.fingerprint if outcome else "",
        history.score(node),
        score(history, node, present) if result else None,
        result is not None,
        has_only_other_fingerprints(node, history.runs[node.id.run]),
        node.repeats,
        node.effect.error_rate if node.effect else None,
        node,
    )
