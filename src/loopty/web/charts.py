"""Charts: all experiments as points and counts, parameters and what matters, operators and what earns credit."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct

from loopty.domain.errors import Misuse
from loopty.domain.task import Task
from loopty.domain.trial import Pool
from loopty.kit.records import field
from loopty.record.history import History
from loopty.record.nodes import Proposals
from loopty.record.search_summary import LadderState
from loopty.show.comparisons import run_metric
from loopty.show.parameters import FEWEST_TRIALS, parameter_importance, parameter_points
from loopty.show.rated_nodes import rated_nodes
from loopty.web.answers import short_id
from loopty.web.columns import BRANCHES, HELD, KEPT, MARKS, OPEN, POOLS, NodeColumns
from loopty.web.record import RunFold

CELL_PIXELS = 4
AXES = ("experiment", "time", "cost")
_MOST_POINTS = 1_500
_MOST_KEPT = 1_000
_MOST_OUTLIERS = 20
_LARGEST_PLOT = 4_000


def chart_points(history: History, fold: RunFold, axis: str, width: int, height: int) -> dict[str, Any]:
    """Place all nodes of a run against one axis."""
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
        """Count the nodes in each cell, by mark; those without a score lie in row -1."""
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
    """List for each mark across, down and count of its cells, one after the other, which is small."""
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
    """Return the values on the x axis, by place."""
    columns = fold.columns
    if axis == "experiment":
        return range(1, len(columns) + 1)
    if axis == "time":
        return columns.times
    return [fold.calls.cost_at(at) for at in columns.times]


def _y_range(columns: NodeColumns, shown: Sequence[int]) -> list[float]:
    """Return the first to the ninety-ninth percentile of all scores, widened to every kept one."""
    known: Sequence[float] = columns.scores
    if columns.counts[HELD] or len(shown) < len(columns):
        # A held result may be absurd: it squeezes no other, and is drawn at the edge.
        known = [columns.scores[place] for place in shown if columns.marks[place] != HELD]
    scores = sorted([score for score in known if score - score == 0])
    if not scores:
        return [0.0, 1.0]
    margin = len(scores) // 100
    kept = [columns.scores[place] for place in columns.places_with(KEPT)]
    finite = [score for score in kept if math.isfinite(score)]
    return [min(scores[margin], *finite, scores[-1]), max(scores[-1 - margin], *finite, scores[0])]


def _outliers(columns: NodeColumns, shown: Sequence[int], y_range: list[float]) -> list[int]:
    """List the newest nodes whose score lies outside, oldest first."""
    scores, (bottom, top) = columns.scores, y_range
    outside = (place for place in reversed(shown) if scores[place] < bottom or scores[place] > top)
    return list(itertools.islice(outside, _MOST_OUTLIERS))[::-1]


def _spread(places: Sequence[int], most: int) -> Sequence[int]:
    """Choose at most so many of these places, evenly, with the first and the last."""
    if len(places) <= most:
        return places
    return [places[round(number * (len(places) - 1) / (most - 1))] for number in range(most)]


def _round(value: float) -> float:
    return round(value, 3)


_MOST_LINES = 1_500
_MOST_CREDITS = 60
_Z = 1.96


def parameters_answer(history: History, fold: RunFold, task: Task | None) -> dict[str, Any]:
    """Say how much each parameter matters, and list the trials to draw against it."""
    rated = rated_nodes(history, fold.run_number)
    points = sorted(parameter_points(history, fold.run_number, rated), key=lambda point: point[0].order)
    points = [(node, score) for node, score in points if math.isfinite(score)]
    shares = {each.name: each for each in parameter_importance(history, fold.run_number, rated)}
    names = list(dict.fromkeys([*shares, *(name for node, _ in points for name in node.params)]))
    ranked = sorted(points, key=lambda point: -point[1])
    tenth = {node.id for node, _ in ranked[: max(len(ranked) // 10, min(len(ranked), 5))]}
    direction = run_metric(history, history.runs[fold.run_number]).direction
    best_nodes = [node for node, _ in points if node.id in tenth]
    others = [point for point in points if point[0].id not in tenth]
    room = max(_MOST_LINES - len(best_nodes), 0)
    if len(others) > room:
        others = [others[round(number * (len(others) - 1) / max(room - 1, 1))] for number in range(room)]
    shown = sorted(
        [*others, *(point for point in points if point[0].id in tenth)], key=lambda point: point[0].order
    )[:_MOST_LINES]
    return {
        "run": fold.run_number,
        "event": fold.number,
        "metric": metric_answer(history, fold),
        "results": len(points),
        "fewest": FEWEST_TRIALS,
        "parameters": [_parameter(name, points, best_nodes, shares.get(name), task) for name in names],
        "tenth": len(best_nodes),
        "lines": [
            {
                "handle": node.handle,
                "id": node.id,
                "mark": MARKS[fold.columns.marks[node.order - 1]],
                "score": direction.sign * score,
                "values": [node.params.get(name) for name in names],
                "tenth": node.id in tenth,
            }
            for node, score in shown
        ],
    }


def _parameter(name: str, points: Any, best: Any, share: Any, task: Task | None) -> dict[str, Any]:
    values = [node.params[name] for node, _ in points if name in node.params]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    is_number = bool(values) and len(numbers) == len(values)
    stated = task.space.parameters.get(name) if task else None
    best_values = [node.params[name] for node in best if name in node.params]
    half = _Z * (2 / len(values)) ** 0.5 if values else 0.0
    low, high = (max(share.share - half, 0.0), min(share.share + half, 1.0)) if share else (None, None)
    categories = list(dict.fromkeys(map(_plain, values)))[:100]
    lowest = min(numbers) if is_number else None
    highest = max(numbers) if is_number else None
    if is_number and best_values:
        words = f"{min(best_values):.4g} to {max(best_values):.4g}, of {lowest:.4g} to {highest:.4g}"
    elif best_values:
        common = max(set(map(str, best_values)), key=list(map(str, best_values)).count)
        words = f"{common} in {list(map(str, best_values)).count(common)} of {len(best_values)}"
    else:
        words = ""
    return {
        "name": name,
        "kind": "number" if is_number else "category",
        "log": bool(getattr(stated, "log", False)),
        "values": [] if is_number else categories,
        "low": lowest,
        "high": highest,
        "share": share.share if share else None,
        "share_low": low,
        "share_high": high,
        "trials": len(values),
        "told": bool(share and low),
        "best_tenth": words,
        "best_low": min(best_values) if is_number and best_values else None,
        "best_high": max(best_values) if is_number and best_values else None,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else str(value)


_COUNTED = ("kept", "failed", "rejected", "inconclusive")
_CURVE_FIELDS = ("order", "at", "kept", "nodes", "gain_percent")
_Row = TypeVar("_Row")


class _Credit(Struct):
    """What one operator did so far."""

    nodes: int = 0
    by_mark: list[int] = field(default_factory=lambda: [0] * len(MARKS))
    bests: int = 0
    gain: float = 0.0
    seconds: float = 0.0
    last_at: float = 0.0
    curve: list[tuple[int, float, int, int, float]] = field(default_factory=list)
    """Order and time of nodes, and what was kept, tried and gained up to then."""


def operators_answer(history: History, fold: RunFold) -> dict[str, Any]:
    """Return each operator with its results, its cost, and its credit over time."""
    credits, columns = _credits(history, fold), fold.columns
    run = history.runs[fold.run_number]
    only_refused = [name for name in fold.calls.refused_by_operator if (name, False) not in credits]
    keys = [*credits, *((name, False) for name in only_refused)]
    ladder = LadderState.of(run, Pool.ATTEMPT)
    rows: list[dict[str, Any]] = []
    for name, is_control in keys:
        credit = credits.get((name, is_control), _Credit())
        spent = None if is_control else fold.calls.by_operator.get(name)
        kept = credit.by_mark[KEPT]
        rate = kept / credit.nodes if credit.nodes else None
        low, high = _wilson(kept, credit.nodes)
        rows.append(
            {
                "name": name,
                "pool": "control" if is_control else "attempt",
                "nodes": credit.nodes,
                **{mark: credit.by_mark[MARKS.index(mark)] for mark in _COUNTED},
                "refused": 0 if is_control else fold.calls.refused_by_operator[name],
                "bests": credit.bests,
                "gain_percent": credit.gain,
                "seconds": credit.seconds,
                "tokens": spent.tokens if spent else 0,
                "money_usd": spent.money_usd if spent else 0.0,
                "calls": spent.calls if spent else 0,
                "rate_low": low,
                "rate": rate,
                "rate_high": high,
                "last_at": credit.last_at,
                "credit": [dict(zip(_CURVE_FIELDS, row, strict=True)) for row in _thin(credit.curve)],
            }
        )
    rows.sort(key=lambda row: (-float(row["gain_percent"]), -int(row["nodes"])))
    refused = sum(Proposals.of(run, pool).refused for pool in Pool)
    rung = f"{ladder.name} ({ladder.reason})" if ladder.name else ""
    return {
        "run": fold.run_number,
        "event": fold.number,
        "operators": rows,
        "rung": rung,
        "refused": refused,
        "nodes": len(columns),
    }


def _credits(history: History, fold: RunFold) -> dict[tuple[str, bool], _Credit]:
    """Collect what each operator did, by its name and whether it served the control."""
    columns, found = fold.columns, dict[tuple[str, bool], _Credit]()
    sign = run_metric(history, history.runs[fold.run_number]).direction.sign
    best = columns.score(0) if len(columns) else None
    known: dict[int, _Credit] = {}
    rows = zip(columns.operators, columns.pools, columns.marks, columns.seconds, columns.times, strict=True)
    for place, (operator, pool, mark, seconds, at) in enumerate(rows):
        if not place or pool == POOLS[Pool.VERSION]:  # the baseline, and what no operator made
            continue
        is_control = pool == POOLS[Pool.CONTROL]
        credit = known.get(2 * operator + is_control)
        if credit is None:
            name = columns.operator_names[operator] if operator >= 0 else ""
            credit = found.setdefault((name, is_control), _Credit())
            known[2 * operator + is_control] = credit
        credit.nodes += 1
        credit.by_mark[mark] += 1
        credit.seconds += seconds
        credit.last_at = at
        if mark == KEPT and not is_control and (score := columns.score(place)) is not None:
            credit.bests += 1
            if best:
                credit.gain += max(100 * sign * (score - best) / abs(best), 0.0)
            best = score
        credit.curve.append((place + 1, at, credit.by_mark[KEPT], credit.nodes, credit.gain))
        if len(credit.curve) > 64 * _MOST_CREDITS:
            credit.curve = credit.curve[::2]
    return found


def _thin(rows: Sequence[_Row]) -> Sequence[_Row]:
    if len(rows) <= _MOST_CREDITS:
        return rows
    return [rows[round(place * (len(rows) - 1) / (_MOST_CREDITS - 1))] for place in range(_MOST_CREDITS)]


def _wilson(kept: int, count: int) -> tuple[float | None, float | None]:
    """Compute Wilson's interval of a share at 95 %."""
    if not count:
        return None, None
    share, square = kept / count, _Z * _Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)
