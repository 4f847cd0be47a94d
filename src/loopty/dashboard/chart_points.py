"""The chart of all experiments: kept and held ones as points, of many others only how many lie in each cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from loopty.dashboard.marks import HELD, KEPT, MARKS, OPEN
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
    columns, x_of = fold.columns, _x_values(fold, axis)
    shown = [place for place in range(len(columns)) if columns.marks[place] != OPEN]
    y_range = _y_range(fold, shown)
    x_range = [x_of(shown[0]), x_of(shown[-1])] if shown else [0.0, 1.0]
    always = [place for place in shown if columns.marks[place] in (KEPT, HELD)]
    as_points = shown if len(shown) <= _MOST_POINTS else _spread(always, _MOST_KEPT)
    drawn = set(as_points)
    outliers = _outliers(fold, shown, y_range)
    ids = columns.ids(history, [*as_points, *outliers])

    def point(place: int) -> list[Any]:
        mark = MARKS[columns.marks[place]]
        return [columns.handles[place], _round(x_of(place)), columns.score(place), mark, ids.get(place, "")]

    cells: Counter[tuple[int, int, int]] = Counter()
    span_x, span_y = (x_range[1] - x_range[0]) or 1.0, (y_range[1] - y_range[0]) or 1.0
    wide, high = max(width // CELL_PIXELS - 1, 1), max(height // CELL_PIXELS - 1, 1)
    scores, marks = columns.scores, columns.marks
    for place in shown:
        if place not in drawn:
            score = scores[place]
            across = int((x_of(place) - x_range[0]) / span_x * wide)
            down = -1 if math.isnan(score) else int((y_range[1] - score) / span_y * high)
            if down == -1 or 0 <= down <= high:
                cells[min(max(across, 0), wide), down, marks[place]] += 1
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


def metric_answer(history: History, fold: RunFold) -> dict[str, str]:
    metric = run_metric(history, history.runs[fold.run_number])
    return {"name": metric.name, "direction": metric.direction.value}


def _x_values(fold: RunFold, axis: str) -> Callable[[int], float]:
    columns = fold.columns
    if axis == "experiment":
        return lambda place: float(place + 1)
    if axis == "time":
        return lambda place: columns.times[place]
    return lambda place: fold.calls.cost_at(columns.times[place])


def _y_range(fold: RunFold, shown: list[int]) -> list[float]:
    """From the first to the ninety-ninth percentile of all scores, and every kept one."""
    columns = fold.columns
    scores = sorted(score for place in shown if math.isfinite(score := columns.scores[place]))
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
