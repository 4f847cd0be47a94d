"""Which nodes of a pool stand out: the best, and the newest that failed. The price does not grow with the pool."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.objective import gain
from loopty.domain.outcome import Ending, Verdict
from loopty.engine.protocols import Ask
from loopty.proposers.code.code_options import Operator
from loopty.record.calls import Reservation, Spend, UnreadReply
from loopty.record.cohorts import Cohorts
from loopty.record.node_record import Node

_MAX_BEST = 8
_MAX_RECENT = 8
_MAX_FIXES = 2
"""In a row; what fails after them is given up."""
_FAILURES = (Ending.FAILED, Ending.TIMED_OUT, Ending.REFUSED)


class BestNodes:
    """Remembers the best nodes; each ask looks only at those that were added or decided since."""

    def __init__(self) -> None:
        self._key: object = None
        self._nodes_seen = 0
        self._undecided: list[NodeId] = []
        self._best: list[NodeId] = []

    def best(self, ask: Ask) -> list[Node]:
        """The best nodes that have a result under the run's fingerprint, the best first."""
        lane, fingerprint = (
            ask.history.nodes_of_pool(ask.run, ask.pool),
            Cohorts.of(ask.history.runs[ask.run]).fingerprint,
        )
        if self._key != (of := (ask.run, ask.pool, fingerprint)) or self._nodes_seen > len(lane):
            self._key, self._nodes_seen, self._undecided, self._best = of, 0, [], []
        waiting = [*self._undecided, *lane[self._nodes_seen :]]
        self._nodes_seen = len(lane)
        self._undecided = [node for node in waiting if not ask.history[node].verdict]
        for node in waiting:
            self._rank(ask, ask.history[node], fingerprint)
        return [ask.history[node] for node in self._best]

    def _rank(self, ask: Ask, node: Node, fingerprint: str) -> None:
        metrics = ask.history.counting_metrics(ask.run)
        good = node.verdict in (Verdict.KEPT, Verdict.DISCARDED, Verdict.INCONCLUSIVE)
        result = node.result(fingerprint)
        if not (good and metrics and result and result.outcome.is_finished):
            return
        reached = result.outcome.metrics
        if any(metric.name not in reached for metric in metrics):
            return

        def is_behind(other: NodeId) -> bool:
            known = ask.history[other].result(fingerprint)
            return known is None or gain(reached, known.outcome.metrics, metrics).amount > 0

        place = next((index for index, other in enumerate(self._best) if is_behind(other)), len(self._best))
        self._best = [*self._best[:place], node.id, *self._best[place:]][:_MAX_BEST]

    def partners(self, ask: Ask, parent: Node) -> list[Node]:
        """Good nodes of another line than the parent's, with other code."""
        return [
            node
            for node in self.best(ask)
            if node.tree != parent.tree and not parent.id.is_within(node.id) and not node.id.is_within(parent.id)
        ]


def node_to_fix(ask: Ask) -> Node | None:
    """The newest node that failed, if that was not long ago and nobody has tried to fix it."""
    run = ask.history.runs[ask.run]
    calls: list[Reservation | UnreadReply] = [*Spend.of(run).reservations.values(), *Spend.of(run).unread.values()]
    underway = {call.node for call in calls if call.operator == Operator.FIX}
    for node in map(
        ask.history.__getitem__, reversed(ask.history.nodes_of_pool(ask.run, ask.pool)[-_MAX_RECENT:])
    ):
        failed = node.verdict is not Verdict.QUARANTINED and node.outcome and node.outcome.ending in _FAILURES
        if failed and node.verdict and node.id.parent and not node.children and node.id not in underway:
            above = [ask.history[one].operator for one in node.id.lineage[-_MAX_FIXES:]]
            if above.count(Operator.FIX) < _MAX_FIXES:
                return node
    return None
