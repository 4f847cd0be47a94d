"""The scores against one parameter, as a chart: where the good values lie."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.kit.records import Record
from loopty.report.cell_grid import Grid, Ink
from loopty.report.columns import cut, pad, width
from loopty.report.scale import robust_scale, tick_labels
from loopty.report.terminal import Terminal
from loopty.views.parameter_slice import ParameterSlice, SlicePoint
from loopty.views.score_points import Mark

_FEWEST_COLUMNS = 12
_DECADES = 2
"""A parameter whose values span at least this many powers of ten is drawn on a logarithmic axis."""
_MOST_CHOICES = 12

_KEPT = Ink("●", "best", 4)
_DISCARDED = Ink("·", "", 3)
_CONTROL = Ink("◦", "other", 2)


class _ValueAxis(Record):
    """Maps the values of a parameter to columns."""

    low: float
    high: float
    is_logarithmic: bool

    def share(self, value: float) -> float:
        """The place of the value between 0, the left edge, and 1."""
        if self.low == self.high:
            return 0.5
        low, high, here = map(self._position, (self.low, self.high, value))
        return (here - low) / (high - low)

    def _position(self, value: float) -> float:
        return math.log(value) if self.is_logarithmic else value

    def value(self, share: float) -> float:
        if self.is_logarithmic:
            return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        return self.low + share * (self.high - self.low)


def slice_chart(found: ParameterSlice, columns: int = 80, rows: int = 12, terminal: Terminal | None = None) -> str:
    """The chart in this many columns and rows of points, or slightly more columns if none fits in them."""
    terminal = terminal or Terminal()
    scores = [point.score for point in found.points]
    best = max(scores, key=lambda score: found.direction.sign * score)
    scale = robust_scale(scores, best)
    ticks = scale.ticks(max(rows // 2, 2))
    names = dict(zip((scale.row(tick, rows) for tick in ticks), tick_labels(ticks), strict=True))
    gutter = max(map(width, names.values()), default=0)
    room = max(columns - gutter - 2, _FEWEST_COLUMNS)
    shares, labels = _places(found.points, room)
    grid = Grid()
    for point, share in zip(found.points, shares, strict=True):
        grid.put(scale.row(point.score, rows), round(share * (room - 1)), _ink(point))
    better = "higher" if found.direction.sign > 0 else "lower"
    lines = [terminal.paint(cut(f"{found.metric} ({better} is better) by {found.parameter}", columns), "strong")]
    for row in range(rows):
        edge = f"{names.get(row, ''):>{gutter}} " + ("┤" if row in names else "│")
        lines.append((terminal.paint(edge, "dim") + grid.line(row, room, terminal)).rstrip())
    lines.append(terminal.paint(" " * gutter + " └" + "─" * room, "dim"))
    lines.append(terminal.paint(" " * (gutter + 2) + labels, "dim").rstrip())
    return terminal.render("\n".join(lines))


def _ink(point: SlicePoint) -> Ink:
    if point.pool is not Pool.ATTEMPT:
        return _CONTROL
    return _KEPT if point.mark is Mark.KEPT else _DISCARDED


def _places(points: Sequence[SlicePoint], columns: int) -> tuple[list[float], str]:
    """The place of each point from 0 to 1, and the line of labels under the axis."""
    values = [point.value for point in points]
    if any(isinstance(value, str | bool) for value in values):
        return _choice_places(values, columns)
    numbers = [float(value) for value in values]
    low, high = min(numbers), max(numbers)
    axis = _ValueAxis(low, high, low > 0 and high / low >= 10**_DECADES)
    return [axis.share(number) for number in numbers], _number_labels(axis, columns)


def _number_labels(axis: _ValueAxis, columns: int) -> str:
    left, middle, right = (f"{axis.value(share):.3g}" for share in (0.0, 0.5, 1.0))
    if axis.low == axis.high:
        return f"{left:^{columns}}"
    gap = columns - width(left) - width(right)
    between = f"{middle:^{gap}}" if gap > width(middle) + 2 else " " * gap
    return left + between + right


def _choice_places(values: Sequence[Value], columns: int) -> tuple[list[float], str]:
    """A stretch of the axis for each choice; the points of one are spread over it in their order."""
    choices = sorted(set(map(str, values)))
    stretch = columns // min(len(choices), _MOST_CHOICES)
    counts = {choice: sum(str(value) == choice for value in values) for choice in choices}
    seen = dict.fromkeys(choices, 0)
    shares = []
    for value in map(str, values):
        seen[value] += 1
        inside = seen[value] / (counts[value] + 1) * max(stretch - 2, 1)
        place = min(choices.index(value), _MOST_CHOICES - 1) * stretch + inside
        shares.append(min(place / max(columns - 1, 1), 1.0))
    return shares, "".join(pad(choice, stretch) for choice in choices[:_MOST_CHOICES])
