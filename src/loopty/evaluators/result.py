"""The result contract: `{"score": 0.6, "tasks": {"t1": 0.8}, …}`. Only a finite `score` is required."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from loopty.domain.objective import SCORE, Direction
from loopty.kit.untrusted_files import Unreadable, is_printable_name, json_object

LARGEST_RESULT = 4 << 20
_MAX_TASKS = 10_000
"""Each is a metric of the node, which stays in memory as long as loopty runs."""


@dataclass(frozen=True, slots=True)
class ParsedResult:
    """What a benchmark reported."""

    metrics: dict[str, float]
    directions: dict[str, Direction] = field(default_factory=dict)


def parse_result(raw: bytes) -> ParsedResult:
    """The result in these bytes. Raises Unreadable with the reason when it breaks the contract."""
    document = json_object(raw)
    if SCORE not in document:
        raise Unreadable("has no score")
    metrics = {SCORE: _number(document[SCORE], SCORE)}
    directions: dict[str, Direction] = {}
    tasks = document.get("tasks") or {}
    meta = document.get("tasks_meta") or {}
    if not isinstance(tasks, dict) or not isinstance(meta, dict):
        raise Unreadable("has tasks or tasks_meta that are not objects")
    if len(tasks) > _MAX_TASKS or len(meta) > _MAX_TASKS:
        raise Unreadable(f"has more than {_MAX_TASKS} tasks")
    for name, value in tasks.items():
        if not is_printable_name(name):
            raise Unreadable(f"has a task whose name is not one short line: {name[:40]!r}")
        metrics[f"tasks.{name}"] = _number(value, f"tasks.{name}")
    for name, task_meta in meta.items():
        direction = task_meta.get("direction") if isinstance(task_meta, dict) else None
        if direction is not None and direction not in tuple(Direction):
            raise Unreadable(f"gives task {name[:40]!r} the direction {str(direction)[:40]!r}: say min or max")
        if direction is not None:
            directions[f"tasks.{name}"] = Direction(direction)
    return ParsedResult(metrics, directions)


def _number(value: Any, name: str) -> float:
    """The value as a finite number. Raises Unreadable for any other value, such as true, "9e9" and 1e999."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"has a {name} that is not a number: {str(value)[:40]!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Unreadable(f"has a {name} that is not finite")
    return number
