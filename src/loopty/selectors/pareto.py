"""Change a node that is the best of some task: one that is bad on average may hold what the others lack."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.engine.protocols import Ask, Selection
from loopty.kit.dataclass import dataclass
from loopty.kit.option import option
from loopty.record.cohorts import Cohorts
from loopty.selectors.judged_nodes import population

_TASK = "tasks."


@dataclass(frozen=True, slots=True)
class ParetoSelector:
    """The best node of a task that is drawn at random. A node without tasks competes by its whole score."""

    share: float = option(
        "The share of proposals that look at tasks; the others change the best node.", 1.0, minimum=0
    )

    def select(self, ask: Ask) -> Selection:
        tasks = self._task_scores(ask)
        names = sorted({name for scores in tasks.values() for name in scores})
        if len(names) < 2 or ask.rng.random() >= self.share:
            return Selection(ask.best, "the best node so far" if names else "the best node: no task is reported")
        sign = _sign(ask)
        name = ask.rng.choice(names)
        ranked = population(ask)
        whole = {one.id: sign * one.value for one in ranked}

        def value(place: int) -> float:
            node = ranked[place].id
            return sign * tasks[node].get(name, whole[node])

        best = max(range(len(ranked)), key=lambda place: (value(place), -place))
        return Selection(ask.history[ranked[best].id], f"the best of task {name.removeprefix(_TASK)}")

    def _task_scores(self, ask: Ask) -> Mapping[NodeId, Mapping[str, float]]:
        fingerprint = Cohorts.of(ask.history.runs[ask.run]).fingerprint
        found = {}
        for one in population(ask):
            result = ask.history[one.id].result(fingerprint)
            metrics = result.outcome.metrics if result else {}
            found[one.id] = {name: value for name, value in metrics.items() if name.startswith(_TASK)}
        return found


def _sign(ask: Ask) -> int:
    metrics = ask.history.counting_metrics(ask.run)
    return metrics[0].direction.sign if metrics else 1
