"""The dot chart as a picture: the score of every experiment in order, and the best so far."""

from __future__ import annotations

import html
from collections.abc import Iterator

from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.report.scale import AxisScale, robust_scale, tick_labels
from loopty.views.score_points import Mark, ScorePoint, ScorePoints

_WIDTH, _HEIGHT = 960, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 16, 56
_LANE = 18
"""The height of the lane below the plot, for experiments without a score."""
_SIZES = {Mark.KEPT: 4.5, Mark.INCONCLUSIVE: 3.5}
_USUAL_SIZE = 2.4
_BESIDE = {Pool.CONTROL: "control", Pool.VERSION: "version"}


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
    """The chart as an SVG element, whose classes name verdicts; empty where there is no score to draw."""
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
    """Points that are drawn last are on top."""
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
    kind = _BESIDE.get(point.pool) or str(point.mark)
    x = plot.x(point.order)
    if point.score is None:
        y = _HEIGHT - _BOTTOM + _LANE
        return f'<path class="{kind}" d="M{x - 3} {y - 3}l6 6m0 -6l-6 6"/>'
    if point.pool is Pool.VERSION:
        return f'<path class="{kind}" d="M{x - 4} {plot.y(point.score)}h8m-4 -4v8"/>'
    size = _SIZES.get(point.mark, _USUAL_SIZE) if kind not in _BESIDE.values() else _USUAL_SIZE
    return f'<circle class="{kind}" cx="{x}" cy="{plot.y(point.score)}" r="{size}"/>'


def _best_line(plot: _Plot, scored: list[ScorePoint], sign: int) -> str:
    """Steps from kept node to kept node."""
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
