"""Change a node that is the best of some task: one that is bad on average may hold what the others lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.engine.protocols import Ask, Selection
from loopty.kit.option import option
from loopty.record.cohorts import Cohorts
from loopty.selectors.judged_nodes import NodeValue, population

_TASK = "tasks."
_Tasks = Mapping[NodeId, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ParetoSelector:
    """The best node of a task that is drawn at random.

    A task may have another scale than the whole score, so a node without the task competes by its place: where no
    node with the task has a better whole score, it shares the turn with the task's best node.
    """

    share: float = option(
        "The share of proposals that look at tasks; the others change the best node.", 1.0, minimum=0
    )

    def select(self, ask: Ask) -> Selection:
        ranked = population(ask)
        tasks = _task_scores(ask, ranked)
        names = sorted({name for scores in tasks.values() for name in scores})
        if len(names) < 2 or ask.rng.random() >= self.share:
            return Selection(ask.best, "the best node so far" if names else "the best node: no task is reported")
        name = ask.rng.choice(names)
        shown, sign = name.removeprefix(_TASK), _sign(ask)
        equal = _equal_without_task(ranked, tasks, name)
        if equal and ask.rng.random() < 1 / 2:
            reason = f"it does not report task {shown}, and no node that does has a better score"
            return Selection(ask.history[equal.id], reason)
        rivals = [one.id for one in ranked if name in tasks[one.id]]
        best = max(rivals, key=lambda node: sign * tasks[node][name])
        return Selection(ask.history[best], f"the best of task {shown}")


def _equal_without_task(ranked: Sequence[NodeValue], tasks: _Tasks, name: str) -> NodeValue | None:
    """The best node without the task, where its whole score is as good as any with the task; else None."""
    first = next((one for one in ranked if name not in tasks[one.id]), None)
    best_rival = next(one for one in ranked if name in tasks[one.id])
    return first if first and first.value >= best_rival.value else None


def _task_scores(ask: Ask, ranked: Sequence[NodeValue]) -> _Tasks:
    fingerprint = Cohorts.of(ask.history.runs[ask.run]).fingerprint
    found = {}
    for one in ranked:
        result = ask.history[one.id].result(fingerprint)
        metrics = result.outcome.metrics if result else {}
        found[one.id] = {name: value for name, value in metrics.items() if name.startswith(_TASK)}
    return found


def _sign(ask: Ask) -> int:
    metrics = ask.history.counting_metrics(ask.run)
    return score_metric(metrics).direction.sign if metrics else 1
