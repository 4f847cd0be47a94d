"""Watches what trials report while they run, and stops those that, by their peers, cannot become good.

A benchmark that reports its score only at its end is followed by the leftmost metric that it reports before, as
long as this goes with the score among the trials that have finished.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Directions, score_metric
from loopty.domain.trial import Curve, Row, metric_curve, metric_of_curve
from loopty.engine.protocols import OnMetrics, Pruner, ReadCurve, Trial
from loopty.record.history import History
from loopty.record.node_record import Node

_MOST_COMPARED = 16
"""Trials by which it is found out whether a metric goes with the score: all pairs of them are compared."""
_ENOUGH_COMPARED = 5
"""With fewer, nothing is said yet."""
_FIRST_LOOK_SECONDS = 0.2
"""A trial is looked at for the first time after this long."""

Peers = Sequence[tuple[Node, Curve]]
"""Finished trials with their curves, oldest first."""


def finished_peers(history: History, node: Node, fingerprint: str) -> Iterator[Node]:
    """Yield the other trials of the node's pool that have finished on this machine."""
    for peer in history.nodes(node.id.run, node.pool):
        outcome = peer.outcome
        if peer.id != node.id and outcome and outcome.is_finished and outcome.fingerprint == fingerprint:
            yield peer


def curve_of(history: History, run: int, rows: Sequence[Row], directions: Directions) -> Curve:
    """Return the curve by which a trial of this run is followed."""
    if not rows:
        return Curve((), Direction.MAX)
    reported = history.runs[run].objective.counting_metrics(rows[-1].metrics, directions)
    metric = metric_of_curve(rows, directions, (history.counting_metrics(run) or reported)[0])
    return metric_curve(rows, metric.name, metric.direction)


def telling_curves(history: History, node: Node, curve: Curve, peers: Peers) -> list[Curve]:
    """Return the curves that tell what becomes of this node's; none if its metric does not go with the score."""
    if not _is_counting(history, node.id.run, curve) and _agreement(_pairs(history, peers)) <= 0:
        return []
    return [peer for _, peer in peers if peer.points]


def pruning_obstacle(history: History, run: int, peers: Peers) -> str:
    """Tell why no trial of a run can be pruned, in one line; empty if one can, or nothing has finished yet."""
    if not peers:
        return ""
    nothing = "the pruner stops no trial"
    if not any(curve.points for _, curve in peers):
        return (
            f"{nothing}: the benchmark reports no metrics while it runs; let it call `run.report` of the SDK "
            "at each step, or take [pruner] out of loopty.toml"
        )
    if all(node.outcome and node.outcome.seconds < _FIRST_LOOK_SECONDS for node, _ in peers):
        return f"{nothing}: each is over within {_FIRST_LOOK_SECONDS:g} s, before loopty looks at what it reports"
    if all(len(curve.points) < 2 for _, curve in peers):
        return f"{nothing}: the benchmark reports once, at its end; let it report at each step"
    curve, pairs = next(curve for _, curve in reversed(peers) if curve.points), _pairs(history, peers)
    if _is_counting(history, run, curve) or len(pairs) < _ENOUGH_COMPARED or _agreement(pairs) > 0:
        return ""
    score = history.counting_metrics(run)[0].name
    return (
        f"{nothing}: {curve.metric}, which the benchmark reports while it runs, does not go with its {score}; "
        f'let it report {score}, or say which values are better, as in "{curve.metric} (lower is better)"'
    )


def _is_counting(history: History, run: int, curve: Curve) -> bool:
    counting = history.counting_metrics(run)
    return not counting or curve.metric == counting[0].name


def _pairs(history: History, peers: Peers) -> list[tuple[float, float]]:
    """Pair where the curves of the newest peers ended with their scores; of both, more is better."""
    pairs = []
    for node, curve in peers[-_MOST_COMPARED:]:
        score = history.score(node)
        if curve.points and score is not None:
            sign = score_metric(history.metrics(node)).direction.sign
            pairs.append((curve.direction.sign * curve.points[-1][1], sign * score))
    return pairs


def _agreement(pairs: Sequence[tuple[float, float]]) -> int:
    """Count how many more pairs of trials both numbers put in the same order than in the opposite one."""
    signs = ((mine[0] - other[0]) * (mine[1] - other[1]) for mine, other in itertools.combinations(pairs, 2))
    return sum((sign > 0) - (sign < 0) for sign in signs)


_MAX_REPORTED = 64  # curves of trials of this session that are kept in memory until a peer needs them


class PruneWatch:
    """Compares each running trial of a session with its peers: those of its pool that finished on this machine."""

    def __init__(
        self,
        history: Callable[[], History],
        pruner: Pruner | None,
        read_curve: ReadCurve,
        fingerprint: str,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """`say` hears why no trial can be pruned; to find that out takes a look at all peers for each trial."""
        self._history, self._pruner = history, pruner
        self._read_curve = read_curve
        self._fingerprint = fingerprint
        self._say = say
        self._reported: dict[NodeId, tuple[Sequence[Row], Directions]] = {}
        self._peers: dict[NodeId, Curve] = {}

    def latest(self, node: NodeId) -> Row | None:
        """Return the newest row that a trial of this session has reported."""
        return next(reversed(self._reported.get(node, ((), {}))[0]), None)

    def obstacle(self, node: Node) -> str:
        """Tell why the pruner can stop no trial of this node's run and pool, in one line; empty if it can."""
        return pruning_obstacle(self._history(), node.id.run, self._peers_of(node)) if self._pruner else ""

    def watch(self, trial: Trial) -> OnMetrics:
        """Return the function that the executor calls with the metrics stream while the trial runs."""
        if self._say and (obstacle := self.obstacle(trial.node)):
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
        """Build the curve of a finished node once: every report of every trial is compared with it."""
        if node.id not in self._peers:
            rows, directions = self._reported.get(node.id) or self._read_curve(node)
            self._peers[node.id] = curve_of(self._history(), node.id.run, rows, directions)
        return self._peers[node.id]
