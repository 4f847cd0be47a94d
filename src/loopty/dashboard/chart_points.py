"""The chart of all experiments: kept and held ones as points, of many others only how many lie in each cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from loopty.dashboard.answers import short_id
from loopty.dashboard.marks import HELD, KEPT, MARKS, OPEN
from loopty.dashboard.node_columns import NodeColumns
from loopty.dashboard.run_fold import RunFold, run_metric
from loopty.domain.errors import Misuse
from loopty.record.history import History

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
    shown = [place for place, mark in enumerate(columns.marks) if mark != OPEN]
    y_range = _y_range(fold, shown)
    x_range = [xs[shown[0]], xs[shown[-1]]] if shown else [0.0, 1.0]
    always = [place for place in shown if columns.marks[place] in (KEPT, HELD)]
    as_points = shown if len(shown) <= _MOST_POINTS else _spread(always, _MOST_KEPT)
    drawn = set(as_points)
    outliers = _outliers(fold, shown, y_range)
    ids = columns.ids(history, [*as_points, *outliers])

    def point(place: int) -> list[Any]:
        mark, handle = MARKS[columns.marks[place]], columns.handles[place]
        return [handle, _round(xs[place]), columns.score(place), mark, short_id(ids.get(place, ""), handle)]

    hidden = [place for place in shown if place not in drawn]
    cells = _cells(columns, hidden, xs, x_range, y_range, width, height)
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
        "cells": [[x, y, MARKS[mark], count] for (x, y, mark), count in cells.items()],
        "outliers": [point(place) for place in outliers],
        "counts": fold.counts(),
    }


def _cells(
    columns: NodeColumns,
    places: Sequence[int],
    xs: Sequence[float],
    x_range: Sequence[float],
    y_range: Sequence[float],
    width: int,
    height: int,
) -> Counter[tuple[int, int, int]]:
    """How many of these nodes lie in each cell, by mark; those without a score lie in row -1."""
    wide, high = max(width // CELL_PIXELS - 1, 1), max(height // CELL_PIXELS - 1, 1)
    left, (bottom, top) = x_range[0], y_range
    by_x, by_y = wide / ((x_range[1] - left) or 1.0), high / ((top - bottom) or 1.0)
    scores, marks = columns.scores, columns.marks
    found = Counter(
        [
            (int((xs[place] - left) * by_x), int((top - score) * by_y) if score == score else -1, marks[place])
            for place in places
            if not ((score := scores[place]) < bottom or score > top)
        ]
    )
    cells: Counter[tuple[int, int, int]] = Counter()
    for (across, down, mark), count in found.items():
        cells[min(max(across, 0), wide), down, mark] += count
    return cells


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


def _y_range(fold: RunFold, shown: list[int]) -> list[float]:
    """From the first to the ninety-ninth percentile of all scores, and every kept one."""
    columns = fold.columns
    scores = sorted([score for place in shown if math.isfinite(score := columns.scores[place])])
    if not scores:
        return [0.0, 1.0]
    margin = len(scores) // 100
    kept = [columns.scores[place] for place in shown if columns.marks[place] == KEPT]
    finite = [score for score in kept if math.isfinite(score)]
    return [min(scores[margin], *finite, scores[-1]), max(scores[-1 - margin], *finite, scores[0])]


def _outliers(fold: RunFold, shown: list[int], y_range: list[float]) -> list[int]:
    scores = fold.columns.scores
    outside = [place for place in shown if scores[place] < y_range[0] or scores[place] > y_range[1]]
    return outside[-_MOST_OUTLIERS:]


def _spread(places: list[int], most: int) -> list[int]:
    """At most so many of these places, evenly, with the first and the last."""
    if len(places) <= most:
        return places
    return [places[round(number * (len(places) - 1) / (most - 1))] for number in range(most)]


def _round(value: float) -> float:
    return round(value, 3)
