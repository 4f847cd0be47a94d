"""The selectors that a task can name: best, root, restart, islands, pareto, map-elites."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.engine.protocols import Ask, Selection
from loopty.kit.tables import Table, option
from loopty.proposers.selectors.judged_nodes import JudgedNodes, NodeValue, can_change, population
from loopty.record.node_record import Node
from loopty.record.trials import Cohorts


class BestSelector(Table):
    """Hill climbing."""

    def select(self, ask: Ask) -> Selection:
        return Selection(ask.best, "the best node so far")


class RootSelector(Table):
    """The null hypothesis of every search: it never builds on what it found."""

    def select(self, ask: Ask) -> Selection:
        return Selection(ask.root, "always the baseline")


_DRAFT = "draft"


class _Line(JudgedNodes):
    """The line that is climbed: its best node, and how many verdicts brought no better one."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        self._patience = patience
        self.best: NodeId | None = None
        self.number = 1
        self.dry = 0
        self._value = 0.0

    @property
    def is_over(self) -> bool:
        return self.dry >= self._patience

    def add(self, node: Node, value: float) -> None:
        if self.is_over and node.id.depth == 1:
            self.best, self.number, self.dry, self._value = node.id, self.number + 1, 0, value
        elif self.best is None or (self._holds(node.id) and value > self._value):
            self.best, self.dry, self._value = node.id, 0, value
        else:
            self.dry += 1

    def _holds(self, node: NodeId) -> bool:
        """Say whether the node may carry the line on: in the first line all may, later those below its draft."""
        return self.number == 1 or (self.best is not None and node.is_within(self.best))


class RestartSelector(Table):
    """The best node of the line. Only verdicts with a result count for the drought."""

    patience: int = option(
        "Verdicts without a better node of the line before the next line starts.", 20, minimum=1
    )

    def select(self, ask: Ask) -> Selection:
        line = _Line.of(ask, lambda: _Line(self.patience), self.patience)
        if line.is_over:
            reason = f"{line.dry} verdicts brought nothing better: a new line starts from a draft"
            return Selection(ask.root, reason, operator=_DRAFT)
        node = ask.history[line.best] if line.best else ask.root
        return Selection(node, f"the best of line {line.number}")


class IslandsSelector(Table):
    """Proposals take turns: each island changes the best node that was made on one of its own turns."""

    count: int = option("How many islands there are.", 4, minimum=1)
    migration: int = option(
        "Proposals of an island before it changes its neighbour's best node; 0: never.", 10, minimum=0
    )

    def select(self, ask: Ask) -> Selection:
        turn, island = divmod(ask.position, self.count)
        home = island
        reason = f"the best of island {island + 1} of {self.count}"
        if self.migration and turn and turn % self.migration == 0:
            home = (island + 1) % self.count
            reason = f"island {island + 1} takes over the best of island {home + 1}"
        for one in population(ask):
            node = ask.history[one.id]
            if node.id.parent and node.position % self.count == home:
                return Selection(node, reason)
        return Selection(ask.root, f"the baseline: island {home + 1} has no good node yet")


_TASK = "tasks."
_Tasks = Mapping[NodeId, Mapping[str, float]]


class ParetoSelector(Table):
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
    """Return the best node without the task, if its whole score is as good as any with the task; else None."""
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


_MOST_CELLS = 512
Cell = tuple[int, ...]


class _Grid(JudgedNodes):
    """The best node of each cell that has one."""

    def __init__(self, columns: tuple[tuple[str, float], ...]) -> None:
        super().__init__()
        self.cells: dict[Cell, NodeValue] = {}
        self._columns = columns

    def add(self, node: Node, value: float) -> None:
        metrics = node.outcome.metrics if node.outcome else {}
        if any(name not in metrics for name, _ in self._columns):
            return
        cell = tuple(math.floor(metrics[name] / width) for name, width in self._columns)
        known = self.cells.get(cell)
        if (known is None and len(self.cells) < _MOST_CELLS) or (known and known.value < value):
            self.cells[cell] = NodeValue(node.id, value)


class MapElitesSelector(Table):
    """MAP-Elites: all cells are equally likely."""

    columns: Mapping[str, float] = option(
        "Columns that describe a behaviour, with the width of their cells: `{ length = 100 }`."
    )
    share: float = option(
        "The share of proposals that draw a cell; the others change the best node.", 1.0, minimum=0
    )

    def select(self, ask: Ask) -> Selection:
        columns = tuple((name, width) for name, width in self.columns.items() if width > 0)
        grid = _Grid.of(ask, lambda: _Grid(columns), columns)
        cells = {cell: one.id for cell, one in sorted(grid.cells.items()) if can_change(ask, one.id)}
        if not cells:
            return Selection(ask.best, f"the best node: no node reports {', '.join(self.columns)}")
        if ask.rng.random() >= self.share:
            return Selection(ask.best, "the best node so far")
        cell = ask.rng.choice(list(cells))
        return Selection(
            ask.history[cells[cell]], f"the best of cell {_text(cell, columns)}, {len(cells)} are filled"
        )


def _text(cell: Cell, columns: tuple[tuple[str, float], ...]) -> str:
    return ", ".join(f"{name} {index * width:g}" for index, (name, width) in zip(cell, columns, strict=True))
