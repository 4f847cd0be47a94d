"""A plot of coloured cells; the most important mark wins a cell."""

from __future__ import annotations

import itertools

from loopty.kit.records import Record
from loopty.report.terminal import Terminal


class Ink(Record):
    """The content of a cell. If several meet in a cell, the highest rank is shown."""

    glyph: str
    style: str
    rank: int


_BLANK = Ink(" ", "", 0)


class Grid:
    """Cells by row, 0 at the top, and column, 0 at the left."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], Ink] = {}

    def put(self, row: int, column: int, ink: Ink) -> None:
        if ink.rank > self._cells.get((row, column), _BLANK).rank:
            self._cells[row, column] = ink

    def line(self, row: int, columns: int, terminal: Terminal) -> str:
        """One row of cells as coloured text."""
        inks = (self._cells.get((row, column), _BLANK) for column in range(columns))
        spans = itertools.groupby(inks, key=lambda ink: ink.style)
        return "".join(terminal.paint("".join(ink.glyph for ink in span), style) for style, span in spans)
