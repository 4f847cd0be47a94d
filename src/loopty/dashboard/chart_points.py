"""The chart of all experiments: kept and held ones as points, of many others only how many lie in each cell."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from loopty.dashboard.answers import short_id
from loopty.dashboard.marks import BRANCHES, HELD, KEPT, MARKS, OPEN
from loopty.dashboard.node_columns import NodeColumns
from loopty.dashboard.run_fold import RunFold
from loopty.domain.errors import Misuse
from loopty.record.history import History
from loopty.views.comparable import run_metric

CELL_PIXELS = 4
AXES = ("experiment", "time", "cost")
_MOST_POINTS = 1_500
_MOST_KEPT = 1_000
_MOST_OUTLIERS = 20
_LARGEST_PLOT = 4_000


def chart_points(history: History, fold: RunFold, axis: str, width: int, height: int) -> dict[str, Any]:
    """All nodes of a run against one axis."""
    if axis not in AXES or not (1 <= width <= _LARGEST_PLOT and 1 <= height <= _LARGEST_PLOT):
        raise Misuse(f"x is one of {', '.join(AXES)}; w and h are 1 to {_LARGEST_PLOT} pixels")
    columns, xs = fold.columns, _x_values(fold, axis)
    shown = _shown_places(columns)
    y_range = _y_range(columns, shown)
    x_range = [xs[shown[0]], xs[shown[-1]]] if shown else [0.0, 1.0]
    always = sorted(place for mark in (*BRANCHES, HELD) for place in columns.places_with(mark))
    as_points = shown if len(shown) <= _MOST_POINTS else _spread(always, _MOST_KEPT)
    outliers = _outliers(columns, shown, y_range)
    ids = columns.ids(history, [*as_points, *outliers])

    def point(place: int) -> list[Any]:
        mark, handle = MARKS[columns.marks[place]], columns.handles[place]
        return [handle, _round(xs[place]), columns.score(place), mark, short_id(ids.get(place, ""), handle)]

    grid = _PlotCells(x_range, y_range, width, height)
    hidden = Counter[int]() if len(as_points) == len(shown) else grid.count(columns, xs)
    for place in as_points if hidden else ():
        hidden[grid.cell(xs[place], columns.scores[place], columns.marks[place])] -= 1
    return {
        "run": fold.run_number,
        "event": fold.number,
        "x": axis,
        "metric": metric_answer(history, fold),
        "w": width,
        "h": height,
        "x_range": [_round(x_range[0]), _round(x_range[1])],
        "y_range": y_range,
        "points": [point(place) for place in as_points],
        "cells": _cells_by_mark(hidden),
        "outliers": [point(place) for place in outliers],
        "counts": fold.counts(),
    }


_ROWS, _MARKS = 4_096, 16
"""More than a plot has rows of cells, and more than there are marks: a cell and its mark are one number."""
_OUTSIDE = -1


class _PlotCells:
    """The cells of a plot."""

    def __init__(self, x_range: Sequence[float], y_range: Sequence[float], width: int, height: int) -> None:
        wide, high = max(width // CELL_PIXELS - 1, 1), max(height // CELL_PIXELS - 1, 1)
        self._left, self._right = x_range
        self._bottom, self._top = y_range
        self._by_x = wide / ((self._right - self._left) or 1.0)
        self._by_y = high / ((self._top - self._bottom) or 1.0)

    def cell(self, x: float, score: float, mark: int) -> int:
        return self._cells([x], [score], [mark])[0]

    def count(self, columns: NodeColumns, xs: Sequence[float]) -> Counter[int]:
        """How many nodes lie in each cell, by mark; those without a score lie in row -1."""
        counts = Counter(self._cells(xs, columns.scores, columns.marks))
        del counts[_OUTSIDE]
        return counts

    def _cells(self, xs: Sequence[float], scores: Sequence[float], marks: Sequence[int]) -> list[int]:
        left, right, by_x = self._left, self._right, self._by_x
        bottom, top, by_y = self._bottom, self._top, self._by_y
        return [
            (int((x - left) * by_x) * _ROWS + int((top - score) * by_y) + 1) * _MARKS + mark
            if bottom <= score <= top and left <= x <= right
            else (int((min(max(x, left), right) - left) * by_x) * _ROWS) * _MARKS + mark
            if score != score
            else _OUTSIDE
            for x, score, mark in zip(xs, scores, marks, strict=True)
        ]


def _cells_by_mark(counts: Counter[int]) -> dict[str, list[int]]:
    """For each mark across, down and count of its cells, one after the other, which is small."""
    found: dict[str, list[int]] = {}
    for cell, count in counts.items():
        place, mark = divmod(cell, _MARKS)
        if count > 0 and mark != OPEN:
            across, down = divmod(place, _ROWS)
            found.setdefault(MARKS[mark], []).extend((across, down - 1, count))
    return found


def _shown_places(columns: NodeColumns) -> Sequence[int]:
    if not columns.counts[OPEN]:
        return range(len(columns))
    return [place for place, mark in enumerate(columns.marks) if mark != OPEN]


def metric_answer(history: History, fold: RunFold) -> dict[str, str]:
    metric = run_metric(history, history.runs[fold.run_number])
    return {"name": metric.name, "direction": metric.direction.value}


def _x_values(fold: RunFold, axis: str) -> Sequence[float]:
    """By place."""
    columns = fold.columns
    if axis == "experiment":
        return range(1, len(columns) + 1)
    if axis == "time":
        return columns.times
    return [fold.calls.cost_at(at) for at in columns.times]


def _y_range(columns: NodeColumns, shown: Sequence[int]) -> list[float]:
    """From the first to the ninety-ninth percentile of all scores, and every kept one.

    A held result may be absurd: it squeezes no other, and is drawn at the edge.
    """
    known: Sequence[float] = columns.scores
    if columns.counts[HELD] or len(shown) < len(columns):
        known = [columns.scores[place] for place in shown if columns.marks[place] != HELD]
    scores = sorted([score for score in known if score - score == 0])
    if not scores:
        return [0.0, 1.0]
    margin = len(scores) // 100
    kept = [columns.scores[place] for place in columns.places_with(KEPT)]
    finite = [score for score in kept if math.isfinite(score)]
    return [min(scores[margin], *finite, scores[-1]), max(scores[-1 - margin], *finite, scores[0])]


def _outliers(columns: NodeColumns, shown: Sequence[int], y_range: list[float]) -> list[int]:
    """The newest nodes whose score lies outside, oldest first."""
    scores, (bottom, top) = columns.scores, y_range
    outside = (place for place in reversed(shown) if scores[place] < bottom or scores[place] > top)
    return list(itertools.islice(outside, _MOST_OUTLIERS))[::-1]


def _spread(places: Sequence[int], most: int) -> Sequence[int]:
    """At most so many of these places, evenly, with the first and the last."""
    if len(places) <= most:
        return places
    return [places[round(number * (len(places) - 1) / (most - 1))] for number in range(most)]


def _round(value: float) -> float:
    return round(value, 3)
