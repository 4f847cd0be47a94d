"""Watches what trials report while they run, and stops those that cannot become good."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopty.domain.curve import Curve, Row, metric_curve
from loopty.domain.ids import NodeId
from loopty.domain.objective import Directions, Metric
from loopty.engine.protocols import OnMetrics, Pruner, ReadCurve, Trial
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_REPORTED = 64
"""Curves of trials of this session that are kept in memory until a peer needs them."""


class PruneWatch:
    """Compares each running trial of a session with its peers: those of its pool that finished on this machine."""

    def __init__(
        self, history: Callable[[], History], pruner: Pruner | None, read_curve: ReadCurve, fingerprint: str
    ) -> None:
        self._history = history
        self._pruner = pruner
        self._read_curve = read_curve
        self._fingerprint = fingerprint
        self._reported: dict[NodeId, tuple[Sequence[Row], Directions]] = {}
        self._peers: dict[NodeId, Curve] = {}

    def latest(self, node: NodeId) -> Row | None:
        """The newest row that a trial of this session has reported."""
        rows = self._reported.get(node, ((), {}))[0]
        return rows[-1] if rows else None

    def watch(self, trial: Trial) -> OnMetrics:
        """The function that the executor calls with the metrics stream while the trial runs."""

        def prune_reason(rows: Sequence[Row], directions: Directions) -> str | None:
            if not trial.pool.rules.searches:  # a repeated measurement is worth its full time
                return None
            self._reported[trial.node.id] = rows, directions
            if len(self._reported) > _MAX_REPORTED:  # the oldest trial has ended; its curve is in its folder
                del self._reported[next(iter(self._reported))]
            if self._pruner is None or not rows:
                return None
            history, run = self._history(), trial.node.id.run
            objective = history.runs[run].objective
            metrics = history.counting_metrics(run) or objective.counting_metrics(rows[-1].metrics, directions)
            curve = metric_curve(rows, metrics[0].name, metrics[0].direction)
            if not curve.points:  # the stream does not hold the metric that counts
                return None
            peers = [
                self._peer(node, metrics[0])
                for node in history.nodes(run, trial.pool)
                if self._is_peer(node) and node.id != trial.node.id
            ]
            return self._pruner.prune_reason(curve, [peer for peer in peers if peer.points])

        return prune_reason

    def _is_peer(self, node: Node) -> bool:
        outcome = node.outcome
        return outcome is not None and outcome.is_finished and outcome.fingerprint == self._fingerprint

    def _peer(self, node: Node, metric: Metric) -> Curve:
        """The curve of a finished node. Built once: every report of every trial is compared with it."""
        if node.id not in self._peers:
            known = self._reported.pop(node.id, None)
            rows, _ = known or self._read_curve(node)
            self._peers[node.id] = metric_curve(rows, metric.name, metric.direction)
        return self._peers[node.id]
