"""Watches what trials report while they run, and stops those that cannot become good.

The curve of a trial is that of the metric that counts. Where a benchmark reports this one only at its end, it is
that of the leftmost metric of the stream, as long as this goes with the score among the trials that have finished.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from loopty.domain.curve import Curve, Row, metric_curve, metric_of_curve
from loopty.domain.ids import NodeId
from loopty.domain.objective import Directions, Metric, score_metric
from loopty.engine.protocols import OnMetrics, Pruner, ReadCurve, Trial
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_REPORTED = 64
"""Curves of trials of this session that are kept in memory until a peer needs them."""
_MOST_COMPARED = 16
"""Peers by which it is found out whether the stream goes with the score: all pairs of them are compared."""
_ENOUGH_COMPARED = 5
"""With fewer, nothing is said yet."""
_FIRST_LOOK_SECONDS = 0.2
"""A trial is looked at for the first time after this long."""


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
        """`say` tells the user, once, why the pruner can stop no trial."""
        self._history = history
        self._pruner = pruner
        self._read_curve = read_curve
        self._fingerprint = fingerprint
        self._say = say
        self._has_said = False
        self._reported: dict[NodeId, tuple[Sequence[Row], Directions]] = {}
        self._peers: dict[NodeId, Curve] = {}

    def latest(self, node: NodeId) -> Row | None:
        """The newest row that a trial of this session has reported."""
        rows = self._reported.get(node, ((), {}))[0]
        return rows[-1] if rows else None

    def watch(self, trial: Trial) -> OnMetrics:
        """The function that the executor calls with the metrics stream while the trial runs."""
        if not self._has_said and (obstacle := self.obstacle(trial.node)):
            self._has_said = True
            self._say(obstacle)

        def prune_reason(rows: Sequence[Row], directions: Directions) -> str | None:
            if not trial.pool.rules.searches:  # a repeated measurement is worth its full time
                return None
            self._reported[trial.node.id] = rows, directions
            if len(self._reported) > _MAX_REPORTED:  # the oldest trial has ended; its curve is in its folder
                del self._reported[next(iter(self._reported))]
            if self._pruner is None or not rows:
                return None
            metric = self._metric_of_curve(trial.node.id.run, rows, directions)
            curve = metric_curve(rows, metric.name, metric.direction)
            peers = [(node, self._peer(node)) for node in self._peers_of(trial.node)]
            if not self._is_counting(trial.node.id.run, metric) and _agreement(self._pairs(peers)) <= 0:
                return None
            return self._pruner.prune_reason(curve, [peer for _, peer in peers if peer.points])

        return prune_reason

    def obstacle(self, node: Node) -> str:
        """Why the pruner can stop no trial of this node's run and pool, in one line; empty where it can."""
        if self._pruner is None:
            return ""
        peers = [(peer, self._peer(peer)) for peer in self._peers_of(node)]
        if not peers:
            return ""
        nothing = "the pruner stops no trial"
        if not any(curve.points for _, curve in peers):
            return (
                f"{nothing}: the benchmark reports no metrics while it runs; let it call `run.report` of the SDK "
                "at each step, or take [pruner] out of loopty.toml"
            )
        if all(peer.outcome and peer.outcome.seconds < _FIRST_LOOK_SECONDS for peer, _ in peers):
            return (
                f"{nothing}: each is over within {_FIRST_LOOK_SECONDS:g} s, before loopty looks at what it reports"
            )
        if all(len(curve.points) < 2 for _, curve in peers):
            return f"{nothing}: the benchmark reports once, at its end; let it report at each step"
        pairs = self._pairs(peers)
        rows, directions = self._read(peers[-1][0])
        run = node.id.run
        metric = self._metric_of_curve(run, rows, directions) if rows else None
        if metric is None or self._is_counting(run, metric) or len(pairs) < _ENOUGH_COMPARED:
            return ""
        if _agreement(pairs) > 0:
            return ""
        score = self._history().counting_metrics(run)[0].name
        return (
            f"{nothing}: {metric.name}, which the benchmark reports while it runs, does not go with its {score}; "
            f'let it report {score}, or say which values are better, as in "{metric.name} (lower is better)"'
        )

    def _metric_of_curve(self, run: int, rows: Sequence[Row], directions: Directions) -> Metric:
        """The metric that counts; where the stream does not hold it, the leftmost of the stream."""
        history = self._history()
        reported = history.runs[run].objective.counting_metrics(rows[-1].metrics, directions)
        return metric_of_curve(rows, directions, (history.counting_metrics(run) or reported)[0])

    def _is_counting(self, run: int, metric: Metric) -> bool:
        counting = self._history().counting_metrics(run)
        return not counting or metric.name == counting[0].name

    def _pairs(self, peers: Sequence[tuple[Node, Curve]]) -> list[tuple[float, float]]:
        """Where the curves of the newest peers ended, beside their scores; of both, more is better."""
        history, pairs = self._history(), []
        for node, curve in peers[-_MOST_COMPARED:]:
            score = history.score(node)
            if curve.points and score is not None:
                sign = score_metric(history.metrics(node)).direction.sign
                pairs.append((curve.direction.sign * curve.points[-1][1], sign * score))
        return pairs

    def _peers_of(self, node: Node) -> Iterator[Node]:
        for peer in self._history().nodes(node.id.run, node.pool):
            outcome = peer.outcome
            if peer.id != node.id and outcome and outcome.is_finished and outcome.fingerprint == self._fingerprint:
                yield peer

    def _peer(self, node: Node) -> Curve:
        """The curve of a finished node. Built once: every report of every trial is compared with it."""
        if node.id not in self._peers:
            rows, directions = self._read(node)
            self._reported.pop(node.id, None)
            metric = self._metric_of_curve(node.id.run, rows, directions) if rows else Metric("")
            self._peers[node.id] = metric_curve(rows, metric.name, metric.direction)
        return self._peers[node.id]

    def _read(self, node: Node) -> tuple[Sequence[Row], Directions]:
        return self._reported.get(node.id) or self._read_curve(node)


def _agreement(pairs: Sequence[tuple[float, float]]) -> int:
    """How many more pairs of trials both numbers put in the same order than in the opposite one."""
    signs = ((mine[0] - other[0]) * (mine[1] - other[1]) for mine, other in itertools.combinations(pairs, 2))
    return sum((sign > 0) - (sign < 0) for sign in signs)
