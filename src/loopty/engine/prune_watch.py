"""Watches what trials report while they run, and stops those that cannot become good."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopty.domain.curve import Curve, Row
from loopty.domain.ids import NodeId
from loopty.domain.objective import Directions
from loopty.engine.protocols import OnMetrics, Pruner, ReadCurve, Trial
from loopty.judge.curve_peers import curve_of, finished_peers, pruning_obstacle, telling_curves
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_REPORTED = 64  # curves of trials of this session that are kept in memory until a peer needs them


class PruneWatch:
    """Compares each running trial of a session with its peers: those of its pool that finished on this machine."""

    def __init__(
        self,
        history: Callable[[], History],
        pruner: Pruner | None,
        read_curve: ReadCurve,
        fingerprint: str,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._history, self._pruner = history, pruner
        self._read_curve = read_curve
        self._fingerprint = fingerprint
        self._say = say
        self._reported: dict[NodeId, tuple[Sequence[Row], Directions]] = {}
        self._peers: dict[NodeId, Curve] = {}

    def latest(self, node: NodeId) -> Row | None:
        """The newest row that a trial of this session has reported."""
        return next(reversed(self._reported.get(node, ((), {}))[0]), None)

    def obstacle(self, node: Node) -> str:
        """Why the pruner can stop no trial of this node's run and pool, in one line; empty where it can."""
        return pruning_obstacle(self._history(), node.id.run, self._peers_of(node)) if self._pruner else ""

    def watch(self, trial: Trial) -> OnMetrics:
        """The function that the executor calls with the metrics stream while the trial runs."""
        if obstacle := self.obstacle(trial.node):
            self._say(obstacle)

        def prune_reason(rows: Sequence[Row], directions: Directions) -> str | None:
            if not trial.pool.rules.searches:  # a repeated measurement is worth its full time
                return None
            history, node = self._history(), trial.node
            self._reported[node.id] = rows, directions
            if len(self._reported) > _MAX_REPORTED:  # the oldest trial has ended; its curve is in its folder
                del self._reported[next(iter(self._reported))]
            if self._pruner is None or not rows:
                return None
            curve = curve_of(history, node.id.run, rows, directions)
            return self._pruner.prune_reason(curve, telling_curves(history, node, curve, self._peers_of(node)))

        return prune_reason

    def _peers_of(self, node: Node) -> list[tuple[Node, Curve]]:
        return [(peer, self._peer(peer)) for peer in finished_peers(self._history(), node, self._fingerprint)]

    def _peer(self, node: Node) -> Curve:
        """The curve of a finished node. Built once: every report of every trial is compared with it."""
        if node.id not in self._peers:
            rows, directions = self._reported.get(node.id) or self._read_curve(node)
            self._peers[node.id] = curve_of(self._history(), node.id.run, rows, directions)
        return self._peers[node.id]
