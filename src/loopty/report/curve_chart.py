"""The learning curve of a node as a chart: what it reported at each step, beside its parent."""

from __future__ import annotations

from loopty.domain.curve import Curve
from loopty.report.cell_grid import Grid, Ink
from loopty.report.columns import cut, width
from loopty.report.scale import robust_scale, tick_labels
from loopty.report.terminal import Terminal
from loopty.views.learning_curve import LearningCurve

_FEWEST_COLUMNS = 12
_OWN = Ink("●", "best", 2)
_PARENT = Ink("·", "other", 1)


def curve_chart(found: LearningCurve, columns: int = 80, rows: int = 8, terminal: Terminal | None = None) -> str:
    """The chart in this many columns and rows of points, or slightly more columns if none fits in them."""
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
