"""The plan of the next call: an operator, the node to change, and the nodes to learn from."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.objective import gain
from loopty.domain.outcome import Ending, Verdict
from loopty.engine.protocols import Ask, Selector
from loopty.kit.dataclass import dataclass
from loopty.proposers.code.code_options import CodeOptions, Operator
from loopty.record.calls import Reservation, Spend, UnreadReply
from loopty.record.cohorts import Cohorts
from loopty.record.node_record import Node

_MAX_BEST = 8
_MAX_RECENT = 8
_MAX_FIXES = 2
"""Consecutive fixes; a node that still fails after them is given up."""
_FAILURES = (Ending.FAILED, Ending.TIMED_OUT, Ending.REFUSED)


@dataclass(frozen=True, slots=True)
class Plan:
    """An operator, the node that it changes, and the nodes that it may learn from."""

    operator: Operator
    parent: Node
    parent_reason: str
    inspirations: tuple[Node, ...] = ()


class BestNodes:
    """The best nodes of a pool. A question reads only nodes that are new or were undecided, so it stays cheap."""

    def __init__(self) -> None:
        self._key: object = None
        self._nodes_seen = 0
        self._undecided: list[NodeId] = []
        self._best: list[NodeId] = []

    def best(self, ask: Ask) -> list[Node]:
        """The best nodes with a result under the run's fingerprint, the best first."""
        ids = ask.history.nodes_of_pool(ask.run, ask.pool)
        fingerprint = Cohorts.of(ask.history.runs[ask.run]).fingerprint
        if self._key != (key := (ask.run, ask.pool, fingerprint)) or self._nodes_seen > len(ids):
            self._key, self._nodes_seen, self._undecided, self._best = key, 0, [], []
        unread = [*self._undecided, *ids[self._nodes_seen :]]
        self._nodes_seen = len(ids)
        self._undecided = [node for node in unread if not ask.history[node].verdict]
        for node in unread:
            self._rank(ask, ask.history[node], fingerprint)
        return [ask.history[node] for node in self._best]

    def _rank(self, ask: Ask, node: Node, fingerprint: str) -> None:
        metrics = ask.history.counting_metrics(ask.run)
        accepted = node.verdict in (Verdict.KEPT, Verdict.DISCARDED, Verdict.INCONCLUSIVE)
        accepted = accepted and not node.files_removed
        result = node.result(fingerprint)
        if not (accepted and metrics and result and result.outcome.is_finished):
            return
        values = result.outcome.metrics
        if any(metric.name not in values for metric in metrics):
            return

        def is_behind(other: NodeId) -> bool:
            other_result = ask.history[other].result(fingerprint)
            return other_result is None or gain(values, other_result.outcome.metrics, metrics).amount > 0

        rank = next((index for index, other in enumerate(self._best) if is_behind(other)), len(self._best))
        self._best = [*self._best[:rank], node.id, *self._best[rank:]][:_MAX_BEST]

    def partners(self, ask: Ask, parent: Node) -> list[Node]:
        """The best nodes with other code that are neither ancestors nor descendants of the parent."""
        return [
            node
            for node in self.best(ask)
            if node.tree != parent.tree and not parent.id.is_within(node.id) and not node.id.is_within(parent.id)
        ]


def make_plan(ask: Ask, options: CodeOptions, selector: Selector, best_nodes: BestNodes) -> Plan:
    """A plan with an operator drawn from those that apply now; a diff of the parent when none applies."""
    selection = selector.select(ask)
    parent, reason = selection.node, selection.reason
    failed = node_to_fix(ask) if Operator.FIX in options.operators else None
    partners = best_nodes.partners(ask, parent) if Operator.CROSSOVER in options.operators else []
    unusable = {Operator.FIX: failed is None, Operator.CROSSOVER: not partners}
    usable = [operator for operator in options.operators if not unusable.get(operator)]
    match ask.rng.choice(usable or [Operator.DIFF]):
        case Operator.FIX if failed:
            return Plan(Operator.FIX, failed, "the newest node that failed")
        case Operator.CROSSOVER:
            return Plan(Operator.CROSSOVER, parent, reason, (ask.rng.choice(partners),))
        case Operator.DRAFT:
            return Plan(Operator.DRAFT, ask.root, "a draft starts from the baseline")
        case operator:
            return Plan(operator, parent, reason)


def node_to_fix(ask: Ask) -> Node | None:
    """The newest of the recent nodes that failed and that nobody has tried to fix, or None."""
    run = ask.history.runs[ask.run]
    calls: list[Reservation | UnreadReply] = [*Spend.of(run).reservations.values(), *Spend.of(run).unread.values()]
    in_progress = {call.node for call in calls if call.operator == Operator.FIX}
    recent = ask.history.nodes_of_pool(ask.run, ask.pool)[-_MAX_RECENT:]
    for node in map(ask.history.__getitem__, reversed(recent)):
        failed = node.verdict is not Verdict.QUARANTINED and node.outcome and node.outcome.ending in _FAILURES
        failed = failed and not node.files_removed
        if failed and node.verdict and node.id.parent and not node.children and node.id not in in_progress:
            operators = [ask.history[ancestor].operator for ancestor in node.id.lineage[-_MAX_FIXES:]]
            if operators.count(Operator.FIX) < _MAX_FIXES:
                return node
    return None
