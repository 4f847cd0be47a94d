"""Plots of coloured cells: the axis of a chart, and the learning curve of a node."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from loopty.domain.trial import Curve
from loopty.kit.records import Record
from loopty.show.terminal import Terminal, cut, width


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
        """Return one row of cells as coloured text."""
        inks = (self._cells.get((row, column), _BLANK) for column in range(columns))
        spans = itertools.groupby(inks, key=lambda ink: ink.style)
        return "".join(terminal.paint("".join(ink.glyph for ink in span), style) for style, span in spans)


_FEWEST_TO_CLIP = 12
_LARGEST = 1e300  # so that the span of the scale stays finite
_FENCE = 3.0
"""An outlier is more than this many interquartile ranges outside the middle half (Tukey's outer fence)."""


class AxisScale(Record):
    """The range of the axis."""

    low: float
    high: float

    def row(self, value: float, rows: int) -> int:
        """Return the row of this value, 0 at the top; a value outside the range is on the edge."""
        share = (self.high - value) / (self.high - self.low)
        return round(min(max(share, 0.0), 1.0) * (rows - 1))

    def ticks(self, limit: int) -> list[float]:
        """Return round numbers within the range, at most about `limit` of them."""
        step = round_step((self.high - self.low) / max(limit, 1))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def robust_scale(values: Sequence[float], best: float) -> AxisScale:
    """Return the range of the values, without outliers if these are few; the best is always inside."""
    ordered = sorted(max(-_LARGEST, min(value, _LARGEST)) for value in values)
    low, high = ordered[0], ordered[-1]
    if len(ordered) >= _FEWEST_TO_CLIP:
        lower, upper = ordered[len(ordered) // 4], ordered[len(ordered) * 3 // 4]
        fence = _FENCE * (upper - lower)
        near = [value for value in ordered if lower - fence <= value <= upper + fence]
        bottom, top = min(near[0], best), max(near[-1], best)
        far = sum(not bottom <= value <= top for value in ordered)
        if far <= len(ordered) // 10 and 0 < 2 * (top - bottom) < high - low:
            low, high = bottom, top
    if low == high:
        room = abs(low) * 0.05 or 1.0
        return AxisScale(low - room, high + room)
    return AxisScale(low, high)


def round_step(minimum: float) -> float:
    """Return the smallest step of 1, 2, 5, 10, … that is at least the minimum."""
    power = 10.0 ** math.floor(math.log10(minimum))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= minimum * (1 - 1e-9))


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Format the ticks with as many decimals as distinguish them."""
    if len(ticks) < 2:
        return [f"{tick:.6g}" for tick in ticks]
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    if decimals > 6 or max(map(abs, ticks)) >= 1e9:
        return [f"{tick:.4g}" for tick in ticks]
    return [f"{tick:.{decimals}f}" for tick in ticks]


class LearningCurve(Record):
    """What a node reported while it ran, of one metric."""

    metric: str
    curve: Curve
    parent: Curve
    """Without points where the parent reported nothing of the metric, and for a baseline."""


_FEWEST_COLUMNS = 12
_OWN = Ink("●", "best", 2)
_PARENT = Ink("·", "other", 1)


def curve_chart(found: LearningCurve, columns: int = 80, rows: int = 8, terminal: Terminal | None = None) -> str:
    """Draw the chart in this many columns and rows of points, or slightly more columns if none fits in them."""
    terminal = terminal or Terminal()
    values = [value for curve in (found.curve, found.parent) for _, value in curve.points]
    scale = robust_scale(values, found.curve.points[-1][1])
    ticks = scale.ticks(max(rows // 2, 2))
    names = dict(zip((scale.row(tick, rows) for tick in ticks), tick_labels(ticks), strict=True))
    gutter = max(map(width, names.values()), default=0)
    room = max(columns - gutter - 2, _FEWEST_COLUMNS)
    steps = [step for curve in (found.curve, found.parent) for step, _ in curve.points]
    first, last = min(steps), max(steps)
    grid = Grid()

    def draw(curve: Curve, ink: Ink) -> None:
        for step, value in curve.points:
            share = (step - first) / (last - first) if last > first else 0.0
            grid.put(scale.row(value, rows), round(share * (room - 1)), ink)

    draw(found.parent, _PARENT)
    draw(found.curve, _OWN)
    better = "higher" if found.curve.direction.sign > 0 else "lower"
    beside = f"; {_PARENT.glyph} its parent" if found.parent.points else ""
    title = f"{found.metric} ({better} is better) by step{beside}"
    lines = [terminal.paint(cut(title, columns), "strong")]
    for row in range(rows):
        edge = f"{names.get(row, ''):>{gutter}} " + ("┤" if row in names else "│")
        lines.append((terminal.paint(edge, "dim") + grid.line(row, room, terminal)).rstrip())
    left, right = f"{first:g}", f"{last:g}"
    lines.append(terminal.paint(" " * gutter + " └" + "─" * room, "dim"))
    lines.append(terminal.paint(" " * (gutter + 2) + left + right.rjust(room - len(left)), "dim"))
    return terminal.render("\n".join(lines))
