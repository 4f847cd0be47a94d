"""A node compared with the baseline."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.outcome import Integrity
from loopty.domain.space import Value
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.views.comparable import comparable_result
from loopty.views.over_baseline import over_baseline
from loopty.views.score_change import ScoreChange


class AgainstBaseline(Record):
    """A node's score and its change over the baseline."""

    node: NodeId
    score: float
    over_baseline: ScoreChange | None
    """None for the baseline itself, and when the baseline was not measured."""
    params: Mapping[str, Value]
    edited: bool
    """Whether its files differ from the baseline's."""
    integrity: Integrity | None
    weakness: str
    """Why the integrity is weak, in words."""
    handle: int = 0


def against_baseline(
    history: History, node: NodeId | None, fingerprint: str, metric: Metric
) -> AgainstBaseline | None:
    """The node compared under this fingerprint; None without a node or without a result there."""
    record = history[node] if node else None
    result = comparable_result(record, fingerprint) if record else None
    if record is None or result is None:
        return None
    change = over_baseline(history, record.id, fingerprint, metric)
    edited = record.tree != history[history.runs[record.id.run].root].tree
    outcome = result.outcome
    return AgainstBaseline(
        node=record.id,
        score=outcome.metrics[metric.name],
        over_baseline=change,
        params=record.params,
        edited=edited,
        integrity=outcome.integrity,
        weakness=outcome.weakness,
        handle=record.handle,
    )
