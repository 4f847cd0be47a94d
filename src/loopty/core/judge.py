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
    metrics = history.yardstick(node.run) or run.objective.resolved(outcome.metrics, outcome.directions)
    best = run.account(history[node].pool).best
    if best is None:
        name = metrics[0].name
        return NodeJudged(node, Verdict.KEPT, f"the first result: {name} {outcome.metrics[name]:g}")
    incumbent = history[best].outcome
    assert incumbent is not None
    found = gain(outcome.metrics, incumbent.metrics, metrics)
    word = "better" if found.amount > 0 else "worse" if found.amount < 0 else "no better"
    if found.metric is None:
        compared = f"the weighted sum by {found.amount:.6g}"
    else:
        name = found.metric.name
        compared = f"{name} {outcome.metrics[name]:.6g} against {incumbent.metrics[name]:.6g}"
    whose = f" of {best}" if best.depth < _DEEP else ""  # `against` names it; a reason is one short line
    verdict = Verdict.KEPT if found.amount > 0 else Verdict.DISCARDED
    return NodeJudged(node, verdict, f"{word}: {compared}{whose}", best)
