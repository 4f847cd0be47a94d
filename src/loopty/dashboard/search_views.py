"""Parameters and operators: what matters, and what earns credit over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from loopty.dashboard.answers import finite
from loopty.dashboard.chart_points import metric_answer
from loopty.dashboard.marks import KEPT, MARKS, POOLS
from loopty.dashboard.run_fold import RunFold
from loopty.domain.pool import Pool
from loopty.domain.task import Task
from loopty.record.history import History
from loopty.record.proposals import Proposals
from loopty.record.rungs import LadderState
from loopty.views.comparable import run_metric
from loopty.views.parameter_importance import FEWEST_TRIALS, parameter_importance, parameter_points
from loopty.views.rated_nodes import rated_nodes

_MOST_LINES = 1_500
_MOST_CREDITS = 60
_Z = 1.96


def parameters_answer(history: History, fold: RunFold, task: Task | None) -> dict[str, Any]:
    """How much each parameter matters, and the trials to draw against it."""
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
        "low": finite(lowest),
        "high": finite(highest),
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


@dataclass(slots=True)
class _Credit:
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
    """Each operator with its results, its cost, and its credit over time."""
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
    """What each operator did, by its name and whether it served the control."""
    columns, found = fold.columns, dict[tuple[str, bool], _Credit]()
    sign = run_metric(history, history.runs[fold.run_number]).direction.sign
    best = columns.score(0) if len(columns) else None
    known: dict[int, _Credit] = {}
    rows = zip(columns.operators, columns.pools, columns.marks, columns.seconds, columns.times, strict=True)
    for place, (operator, pool, mark, seconds, at) in enumerate(islice(rows, columns.detailed)):
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
    """Wilson's interval of a share at 95 %."""
    if not count:
        return None, None
    share, square = kept / count, _Z * _Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)
