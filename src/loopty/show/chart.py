"""The dot chart, on a terminal and as a picture: the score of every experiment, and the best so far."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator

from loopty.domain.trial import Pool
from loopty.kit.records import Record, replace
from loopty.show.figures import figure, node_name
from loopty.show.plot import AxisScale, Grid, Ink, robust_scale, round_step, tick_labels
from loopty.show.rated_nodes import Mark, ScorePoint, ScorePoints
from loopty.show.score_text import ScoreText
from loopty.show.terminal import Terminal, cut, width

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
    """Draw the chart in this many columns and rows, or slightly more if no chart fits in them."""
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
    """Draw the x axis and the numbers under it."""
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
    """Say the meaning and the number of each glyph, wrapped into lines."""
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
    """Say how many these are; empty if some were left out."""
    return "" if points.is_thinned else f"{len(drawn)} "


def _row_name(failed: list[ScorePoint]) -> str:
    """Name the row of points without a score; empty without such points."""
    marks = {point.mark for point in failed}
    return "no score" if len(marks) > 1 else "".join(marks)


def _is_control(point: ScorePoint) -> bool:
    return point.pool is Pool.CONTROL


_WIDTH, _HEIGHT = 960, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 16, 56
_LANE = 18
"""The height of the lane below the plot, for experiments without a score."""
_SIZES = {Mark.KEPT: 4.5, Mark.INCONCLUSIVE: 3.5}
_USUAL_SIZE = 2.4
_BESIDE_CLASSES = {Pool.CONTROL: "control", Pool.VERSION: "version"}


class _Plot(Record):
    """Maps orders and scores to places of the picture."""

    scale: AxisScale
    last: int

    def x(self, order: int) -> float:
        return round(_LEFT + (order - 1) / max(self.last - 1, 1) * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, score: float) -> float:
        share = (self.scale.high - score) / (self.scale.high - self.scale.low)
        return round(_TOP + min(max(share, 0.0), 1.0) * (_HEIGHT - _TOP - _BOTTOM), 1)


def svg_chart(points: ScorePoints) -> str:
    """Draw the chart as an SVG element, whose classes name verdicts; empty if there is no score to draw."""
    scored = [point for point in points.items if point.score is not None]
    scores = [point.score for point in scored if point.score is not None]
    if not scores:
        return ""
    sign = points.direction.sign
    plot = _Plot(robust_scale(scores, sign * max(sign * score for score in scores)), points.items[-1].order)
    name = html.escape(f"{points.metric} of every experiment in order, and the best so far")
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}">',
        *_axes(plot, points.metric),
        *(_dot(plot, point) for point in sorted(points.items, key=_rank)),
        _best_line(plot, scored, sign),
        "</svg>",
    ]
    return "\n".join(filter(None, parts))


def _rank(point: ScorePoint) -> tuple[bool, bool]:
    """Rank a point: those that are drawn last are on top."""
    return point.mark is Mark.KEPT, point.pool is Pool.ATTEMPT


def _axes(plot: _Plot, metric: str) -> Iterator[str]:
    ticks = plot.scale.ticks(6)
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        y = plot.y(tick)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick" x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{label}</text>'
    bottom = _HEIGHT - 8
    yield f'<text class="tick" x="{_LEFT}" y="{bottom}">1</text>'
    yield f'<text class="tick" x="{_WIDTH - _RIGHT}" y="{bottom}" text-anchor="end">{plot.last:,}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    label = html.escape(metric[:60])
    yield f'<text class="tick" x="{middle}" y="{bottom}" text-anchor="middle">experiment; {label} upwards</text>'


def _dot(plot: _Plot, point: ScorePoint) -> str:
    kind = _BESIDE_CLASSES.get(point.pool) or str(point.mark)
    x = plot.x(point.order)
    if point.score is None:
        y = _HEIGHT - _BOTTOM + _LANE
        return f'<path class="{kind}" d="M{x - 3} {y - 3}l6 6m0 -6l-6 6"/>'
    if point.pool is Pool.VERSION:
        return f'<path class="{kind}" d="M{x - 4} {plot.y(point.score)}h8m-4 -4v8"/>'
    size = _SIZES.get(point.mark, _USUAL_SIZE) if kind not in _BESIDE_CLASSES.values() else _USUAL_SIZE
    return f'<circle class="{kind}" cx="{x}" cy="{plot.y(point.score)}" r="{size}"/>'


def _best_line(plot: _Plot, scored: list[ScorePoint], sign: int) -> str:
    """Draw steps from kept node to kept node."""
    steps: list[str] = []
    best: float | None = None
    for point in scored:
        if point.pool is not Pool.ATTEMPT or point.mark is not Mark.KEPT or point.score is None:
            continue
        if best is None:
            steps.append(f"M{plot.x(point.order)} {plot.y(point.score)}")
        elif sign * point.score > sign * best:
            steps.append(f"H{plot.x(point.order)}V{plot.y(point.score)}")
        else:
            continue
        best = point.score
    return f'<path class="best" d="{"".join(steps)}H{_WIDTH - _RIGHT}"/>' if steps else ""
