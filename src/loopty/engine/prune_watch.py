"""Follows what trials report while they run, and tells the doomed ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopty.domain.curve import Curve, Row, metric_curve
from loopty.domain.ids import NodeId
from loopty.domain.objective import Directions, Metric
from loopty.domain.outcome import Pool
from loopty.engine.protocols import ReadCurve, Pruner, OnMetrics, Trial
from loopty.record.history import History
from loopty.record.records import Node


class PruneWatch:
    """Holds each trial of a session against the finished ones of its pool."""

    def __init__(self, history: Callable[[], History], pruner: Pruner | None, curves: ReadCurve) -> None:
        self._history = history
        self._pruner = pruner
        self._read_curve = curves
        self._reported: dict[NodeId, tuple[Sequence[Row], Directions]] = {}
        self._peers: dict[NodeId, Curve] = {}

    def latest(self, node: NodeId) -> Row | None:
        """The newest row that a trial of this session has reported."""
        rows = self._reported.get(node, ((), {}))[0]
        return rows[-1] if rows else None

    def watch(self, trial: Trial) -> OnMetrics:
        """What the executor calls with the metrics stream while the trial runs."""

        def seen(rows: Sequence[Row], directions: Directions) -> str | None:
            if trial.pool is Pool.REPEAT:  # what is measured again is worth its full time
                return None
            self._reported[trial.node.id] = rows, directions
            if self._pruner is None or not rows:
                return None
            history, run = self._history(), trial.node.id.run
            objective = history.runs[run].objective
            metric = (history.counting_metrics(run) or objective.counting_metrics(rows[-1].metrics, directions))[0]
            curve = metric_curve(rows, metric.name, metric.direction)
            if not curve.points:  # the metric that counts is not reported on the way
                return None
            peers = [
                self._peer(node, metric)
                for node in history.nodes(run, trial.pool)
                if node.outcome and node.outcome.is_finished and node.id != trial.node.id
            ]
            return self._pruner.doomed(curve, [peer for peer in peers if peer.points])

        return seen

    def _peer(self, node: Node, metric: Metric) -> Curve:
        """The curve of a finished node; made once, because every report of every trial is held against it."""
        if node.id not in self._peers:
            known = self._reported.pop(node.id, None)
            rows, _ = known or self._read_curve(node)
            self._peers[node.id] = metric_curve(rows, metric.name, metric.direction)
        return self._peers[node.id]
