"""The dot chart: the score of every experiment in order, and the best so far."""

from __future__ import annotations

import itertools

from loopty.domain.pool import Pool
from loopty.kit.records import Record, replace
from loopty.report.cell_grid import Grid, Ink
from loopty.report.columns import cut, width
from loopty.report.figures import figure
from loopty.report.node_name import node_name
from loopty.report.scale import AxisScale, robust_scale, round_step, tick_labels
from loopty.report.score_text import ScoreText
from loopty.report.terminal import Terminal
from loopty.views.score_points import Mark, ScorePoint, ScorePoints

_FEWEST_COLUMNS = 8
_FEWEST_ROWS = 4

_INKS = {
    Mark.KEPT: Ink("●", "best", 6),
    Mark.DISCARDED: Ink("·", "", 4),
    Mark.INCONCLUSIVE: Ink("?", "warn", 4),
    Mark.PRUNED: Ink("–", "dim", 3),
    Mark.FAILED: Ink("×", "bad", 4),
    Mark.REJECTED: Ink("!", "bad", 4),
}
_CONTROL = Ink("◦", "other", 3)
_VERSION = Ink("◇", "warn", 5)
_BESIDE = {Pool.CONTROL: _CONTROL, Pool.VERSION: _VERSION}
"""Pools whose points with a score all look alike."""


class _LineStyle(Record):
    """How a line of the best so far is drawn."""

    flat: Ink
    steep: Ink


_BEST = _LineStyle(Ink("─", "good", 2), Ink("│", "good", 2))
# Among many points, the points close to the line would hide it.
_BEST_AMONG_MANY = _LineStyle(replace(_BEST.flat, rank=5), replace(_BEST.steep, rank=5))
_BEST_OF_CONTROL = _LineStyle(Ink("╌", "other", 1), Ink("╎", "other", 1))


class _ScoredPoint(Record):
    """A point with a score."""

    order: int
    score: float
    pool: Pool
    mark: Mark


class _Frame(Record):
    """Maps orders and scores to cells of the plot."""

    scale: AxisScale
    columns: int
    rows: int
    last: int
    """The order at the right edge."""

    def column(self, order: int) -> int:
        return round((order - 1) / max(self.last - 1, 1) * (self.columns - 1))

    def row(self, score: float) -> int:
        return self.scale.row(score, self.rows)


def chart(points: ScorePoints, columns: int = 80, rows: int = 20, terminal: Terminal | None = None) -> str:
    """The chart in this many columns and rows, or slightly more if no chart fits in them."""
    terminal = terminal or Terminal()
    scored = [_ScoredPoint(p.order, p.score, p.pool, p.mark) for p in points.items if p.score is not None]
    if not scored:
        return f"no {points.metric} to draw yet" + (
            f": {len(points.items)} without a result" if points.items else ""
        )
    best = max(points.direction.sign * point.score for point in scored) * points.direction.sign
    scale = robust_scale([point.score for point in scored], best)
    failed = [point for point in points.items if point.score is None]
    legend = _legend(points, scored, scale, columns, terminal)
    height = max(rows - len(legend) - bool(failed) - 3, _FEWEST_ROWS)
    ticks = scale.ticks(max(height // 2, 2))
    names = dict(zip((scale.row(tick, height) for tick in ticks), tick_labels(ticks), strict=True))
    without_score = _row_name(failed)
    gutter = max([*map(width, names.values()), len(without_score)])
    frame = _Frame(scale, max(columns - gutter - 2, _FEWEST_COLUMNS), height, points.items[-1].order)
    grid = _draw_points(scored, failed, frame)
    lines = [_title(points, columns, terminal)]
    for row in range(height):
        edge = f"{names.get(row, ''):>{gutter}} " + ("┤" if row in names else "│")
        lines.append(terminal.paint(edge, "dim") + grid.line(row, frame.columns, terminal))
    if failed:
        lines.append(
            terminal.paint(f"{without_score:>{gutter}} │", "dim") + grid.line(height, frame.columns, terminal)
        )
    lines += [terminal.paint(line, "dim") for line in _order_axis(frame, gutter)]
    return terminal.render("\n".join(line.rstrip() for line in lines + legend))


def _draw_points(scored: list[_ScoredPoint], failed: list[ScorePoint], frame: _Frame) -> Grid:
    grid = Grid()
    for point in scored:
        ink = _BESIDE.get(point.pool) or _INKS[point.mark]
        if point.score > frame.scale.high:
            ink = replace(ink, glyph="▲")
        elif point.score < frame.scale.low:
            ink = replace(ink, glyph="▼")
        grid.put(frame.row(point.score), frame.column(point.order), ink)
    for missing in failed:
        ink = _INKS[missing.mark]
        grid.put(
            frame.rows, frame.column(missing.order), replace(ink, style="other") if _is_control(missing) else ink
        )
    crowded = len(scored) > frame.columns
    _draw_line(grid, scored, Pool.ATTEMPT, _BEST_AMONG_MANY if crowded else _BEST, frame)
    if any(point.pool is Pool.CONTROL for point in scored):
        _draw_line(grid, scored, Pool.CONTROL, _BEST_OF_CONTROL, frame)
    return grid


def _draw_line(grid: Grid, scored: list[_ScoredPoint], pool: Pool, line: _LineStyle, frame: _Frame) -> None:
    """Draw the best so far of one pool. It changes where a node was kept; both pools start at the baseline."""
    kept = [p for p in scored if p.mark is Mark.KEPT and (p.pool is pool or p.order == 1)]
    stops = [(frame.column(point.order), frame.row(point.score)) for point in kept]
    if not stops:
        return
    stops.append((frame.column(frame.last), stops[-1][1]))
    for (left, level), (right, row) in itertools.pairwise(stops):
        for column in range(left + 1, right + (row == level)):
            grid.put(level, column, line.flat)
        if row != level:
            grid.put(level, right, replace(line.flat, glyph="╯" if row < level else "╮"))
        for between in range(min(level, row) + 1, max(level, row)):
            grid.put(between, right, line.steep)


def _title(points: ScorePoints, columns: int, terminal: Terminal) -> str:
    attempts = [point for point in points.items if point.mark is Mark.KEPT and point.pool is Pool.ATTEMPT]
    left = f"{points.metric} ({'higher' if points.direction.sign > 0 else 'lower'} is better)"
    if not attempts:
        return terminal.paint(cut(left, columns), "strong")
    best = attempts[-1]
    ends = (attempts[0].score, best.score)
    text = ScoreText.of([score for score in ends if score is not None], noise=points.noise)
    right = f"best {node_name(best.node, best.handle)}: {text.score(best.score or 0.0)}"
    left = cut(left, max(columns - len(right) - 2, 10))
    gap = max(columns - width(left) - len(right), 1)
    return terminal.paint(left, "strong") + " " * gap + terminal.paint(right, "best")


def _order_axis(frame: _Frame, gutter: int) -> list[str]:
    """The x axis and the numbers under it."""
    step = max(int(round_step(max(frame.last / max(frame.columns // 10, 1), 1))), 1)
    axis, numbers = ["─"] * frame.columns, [" "] * (frame.columns + 1)
    free = 0
    for order in [1, *range(step, frame.last + 1, step)]:
        column, name = frame.column(order), str(order)
        start = min(max(column - len(name) // 2, 0), frame.columns - len(name))
        if start < free:
            continue
        axis[column] = "┬"
        numbers[start : start + len(name)] = name
        free = start + len(name) + 1
    return [" " * gutter + " └" + "".join(axis), " " * gutter + "  " + "".join(numbers)]


def _legend(
    points: ScorePoints, scored: list[_ScoredPoint], scale: AxisScale, columns: int, terminal: Terminal
) -> list[str]:
    """The meaning and the number of each glyph, wrapped into lines."""
    entries = [(_INKS[mark], f"{count} {mark}") for mark in Mark if (count := points.marks.get(mark))]
    if points.control:
        entries.append((_CONTROL, f"{points.control} control ({_BEST_OF_CONTROL.flat.glyph} its best)"))
    if points.versions:
        entries.append((_VERSION, f"{points.versions} past version{'s' * (points.versions > 1)}"))
    entries.append((_BEST.flat, "best so far"))
    if points.under_other_fingerprints:
        entries.append((Ink("≠", "warn", 0), f"{points.under_other_fingerprints} on other machines, not drawn"))
    if above := [point.score for point in scored if point.score > scale.high]:
        entries.append((Ink("▲", "warn", 0), f"{_count(points, above)}off the chart, up to {figure(max(above))}"))
    if below := [point.score for point in scored if point.score < scale.low]:
        entries.append(
            (Ink("▼", "warn", 0), f"{_count(points, below)}off the chart, down to {figure(min(below))}")
        )
    lines, used = [""], 0
    for ink, text in entries:
        needed = len(text) + 2
        if used and used + 3 + needed > columns:
            lines.append("")
            used = 0
        lines[-1] += "   " * bool(used) + f"{terminal.paint(ink.glyph, ink.style)} {text}"
        used += needed + 3 * bool(used)
    return lines


def _count(points: ScorePoints, drawn: list[float]) -> str:
    """How many these are; empty where some were left out."""
    return "" if points.is_thinned else f"{len(drawn)} "


def _row_name(failed: list[ScorePoint]) -> str:
    """The name of the row of points without a score; empty without such points."""
    marks = {point.mark for point in failed}
    return "no score" if len(marks) > 1 else "".join(marks)


def _is_control(point: ScorePoint) -> bool:
    return point.pool is Pool.CONTROL
