"""Change the best node of a cell: cells are ranges of what the benchmark reports about a node's behaviour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from loopty.engine.protocols import Ask, Selection
from loopty.kit.option import option
from loopty.record.node_record import Node
from loopty.selectors.judged_nodes import JudgedNodes, NodeValue, can_change

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


@dataclass(frozen=True, slots=True)
class MapElitesSelector:
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
