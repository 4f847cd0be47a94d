"""Keep or discard."""

from __future__ import annotations

from loopty.core.events import NodeJudged
from loopty.core.history import History
from loopty.core.ids import NodeId
from loopty.core.objective import gain
from loopty.core.outcome import Outcome, Verdict

_DEEP = 10


def judged(history: History, node: NodeId, outcome: Outcome) -> NodeJudged:
    """The verdict on a node whose trial ended with this outcome, against the best of its pool so far."""
    run = history.runs[node.run]
    if not outcome.finished:
        return NodeJudged(node, Verdict.DISCARDED, f"{outcome.ending}: {outcome.reason}")
    metrics = run.objective.resolved(outcome.metrics, outcome.directions)
    pool = history[node].pool
    best = run.account(pool).best
    if best is None:
        name = metrics[0].name
        return NodeJudged(node, Verdict.KEPT, f"the first result: {name} {outcome.metrics[name]:g}")
    incumbent = history[best].outcome
    assert incumbent is not None
    if missing := next((metric.name for metric in metrics if metric.name not in incumbent.metrics), None):
        return NodeJudged(node, Verdict.DISCARDED, f"{best} did not report {missing}: not comparable", best)
    amount, metric = gain(outcome.metrics, incumbent.metrics, metrics)
    name = metric.name
    whose = f" of {best}" if best.depth < _DEEP else ""  # `against` names it; a reason is one short line
    compared = f"{name} {outcome.metrics[name]:.6g} against {incumbent.metrics[name]:.6g}{whose}"
    if amount > 0:
        return NodeJudged(node, Verdict.KEPT, f"better: {compared}", best)
    return NodeJudged(node, Verdict.DISCARDED, f"{'worse' if amount < 0 else 'no better'}: {compared}", best)
