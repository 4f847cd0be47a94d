"""The result contract, of which only a finite score is required, and what a trial has left to read it from:
bounded, no link followed.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopty.domain.objective import SCORE, Direction, best_score_name, not_finite_text
from loopty.kit import untrusted_files
from loopty.kit.records import Record, field, replace
from loopty.kit.safe_folder import SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable, is_printable_name, json_object

_MAX_TASKS = 10_000
"""Each is a metric of the node, which stays in memory as long as loopty runs."""
_SCORE_KEYS = (SCORE, "combined_score", f"metrics.{SCORE}", "metrics.combined_score")
"""Where results have their score, if the task does not say it."""
_MAX_NAMES = 8
_DEEPEST_KEY = 8


class ParsedResult(Record):
    """What a benchmark reported."""

    metrics: dict[str, float]
    directions: dict[str, Direction] = field(default_factory=dict)
    raw: bytes = b""
    """The object as the benchmark wrote it; empty where a tool wrote something else."""
    rows: Mapping[str, float] = field(default_factory=dict)
    """The figure of each benchmark of a tool that goes into the score, by name; empty for other results."""

    @property
    def document(self) -> bytes:
        """Return the result as one JSON object, as the contract has it."""
        others = {name: value for name, value in self.metrics.items() if name != SCORE}
        return self.raw or json.dumps({SCORE: self.metrics[SCORE], "metrics": others}).encode()


def parse_result(raw: bytes, score_key: str = "") -> ParsedResult:
    """Parse the result in these bytes. Raises Unreadable with the reason when it breaks the contract.

    `score_key` names the score, with dots into nested objects. The numbers at the top and in `metrics` are metrics
    by the same names.
    """
    document = json_object(raw)
    numbers = dict(_numbers(document))
    metrics = _score(document, numbers, score_key)
    others = {
        name: value
        for name, value in numbers.items()
        if ("." not in name or name.startswith("metrics.")) and name != SCORE and is_printable_name(name)
    }
    if len(others) > _MAX_TASKS:
        raise Unreadable(f"has more than {_MAX_TASKS} numbers")
    metrics |= others
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
        metrics[f"tasks.{name}"] = finite_number(value, f"tasks.{name}")
    for name, task_meta in meta.items():
        direction = task_meta.get("direction") if isinstance(task_meta, dict) else None
        if direction is not None and direction not in tuple(Direction):
            raise Unreadable(f"gives task {name[:40]!r} the direction {str(direction)[:40]!r}: say min or max")
        if direction is not None:
            directions[f"tasks.{name}"] = Direction(direction)
    return ParsedResult(metrics, directions, raw)


def result_of_rows(result: ParsedResult, patterns: Sequence[str]) -> ParsedResult:
    """Keep only the benchmarks that these patterns name: a star stands for any text, and `!` leaves out.

    The score is the geometric mean of those. Raises Unreadable if none is left.
    """
    if not patterns:
        return result
    if not result.rows:
        raise Unreadable("has no rows: `rows` under [benchmark] chooses among the benchmarks of a tool")
    kept = {name: value for name, value in result.rows.items() if _is_named(name, patterns)}
    if not kept:
        names = ", ".join(name[:40] for name in [*result.rows][:_MAX_NAMES])
        raise Unreadable(f"has no benchmark that `rows` under [benchmark] names (it has {names})")
    others = {
        name: value
        for name, value in result.metrics.items()
        if name != SCORE and (name.rpartition(".")[0] in kept or name.rpartition(".")[0] not in result.rows)
    }
    return replace(result, metrics={SCORE: geometric_mean(kept.values()), **others}, rows=kept)


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    """Say whether a pattern names this, and none with `!` does; only those with `!` name all others."""
    left_out = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    chosen = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    return any(_fits(name, one) for one in chosen) and not any(_fits(name, one) for one in left_out)


def _fits(name: str, pattern: str) -> bool:
    # No other sign means anything: names of benchmarks have brackets, as `test_sort[10]`.
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def geometric_mean(values: Iterable[float]) -> float:
    """Compute the geometric mean; 0 if a value is not above 0."""
    every = [*values]
    if min(every) <= 0:
        return 0.0
    return math.exp(math.fsum(map(math.log, every)) / len(every))


def choose_score(result: ParsedResult, score_key: str) -> ParsedResult:
    """Make this metric the result's score; without a key, keep its own score. Raises Unreadable."""
    key = score_key or SCORE
    if key not in result.metrics:
        raise Unreadable(_no_score(key, (name for name in result.metrics if name != SCORE)))
    if key == SCORE:
        return result
    direction = {SCORE: result.directions[key]} if key in result.directions else {}
    metrics = {
        SCORE: result.metrics[key],
        **{name: value for name, value in result.metrics.items() if name != SCORE},
    }
    return ParsedResult(metrics, {**result.directions, **direction}, rows=result.rows)


def finite_number(value: Any, name: str) -> float:
    """Return the value as a finite number. Raises Unreadable for others, such as true, "9e9" and 1e999."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"has a {name} that is not a number: {str(value)[:40]!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Unreadable(f"has a {name} that is {not_finite_text(number)}: a score is a finite number")
    return number


def _score(document: Mapping[str, Any], numbers: Mapping[str, float], score_key: str) -> dict[str, float]:
    if not score_key and SCORE in document:
        return {SCORE: finite_number(document[SCORE], SCORE)}
    for key in (score_key,) if score_key else _SCORE_KEYS:
        if key in numbers:
            return {SCORE: numbers[key]}
    raise Unreadable(_no_score(score_key or SCORE, iter(numbers)))


def _no_score(key: str, numbers: Iterator[str]) -> str:
    """Say why there is no score, with the keys that could be meant."""
    names = [name for name in numbers if is_printable_name(name)]
    if not names:
        return f"has no {key[:60]}, and no other number"
    best = best_score_name(names)
    names = [best, *(name for name in names if name != best)]
    shown = ", ".join(name[:40] for name in names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    remedy = f'name one of its numbers under [benchmark], as in score_key = "{names[0][:40]}"'
    return f"has no {key[:60]}: {remedy} (it has {shown})"


def _numbers(document: Mapping[str, Any], above: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Yield the finite numbers in nested objects, by their keys with dots."""
    for key, value in document.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            if depth < _DEEPEST_KEY:
                yield from _numbers(value, f"{name}.", depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf:
            try:
                yield name, float(value)
            except OverflowError:
                continue


RESULT = "result.json"
LARGEST_RESULT = 4 << 20
_LARGEST_TOTAL = 16 << 20
_MAX_ENTRIES = 20_000
_DEEPEST_FOLDER = 16


class TrialOutput(Record):
    """The outbox of a trial whose processes are dead, and what it printed."""

    outbox: SafeFolder
    logs: SafeFolder

    def file(self, name: str) -> bytes | None:
        """Read a file of the outbox, or return None when there is none. Raises Unreadable."""
        return _content(self.outbox, name, LARGEST_RESULT)

    def stdout(self) -> bytes:
        """Return what the benchmark printed. Raises Unreadable."""
        return _content(self.logs, "stdout.log", LARGEST_RESULT) or b""

    def files_below(self, folder: str, name_end: str) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a folder of the outbox whose paths end like this, by path. Raises Unreadable."""
        left = _LARGEST_TOTAL
        for steps in _paths(self.outbox.below(folder)):
            path = "/".join(steps)
            if path.endswith(name_end):
                raw = _content(self.outbox.below(folder, *steps[:-1]), steps[-1], left) or b""
                left -= len(raw)
                yield path, raw


def _content(folder: SafeFolder, name: str, limit_bytes: int) -> bytes | None:
    try:
        with folder.handle() as descriptor:
            return untrusted_files.content(Path(name), limit_bytes, descriptor)
    except (FileNotFoundError, PermissionError, UnsafePath):
        return None


def _paths(top: SafeFolder) -> list[tuple[str, ...]]:
    """List the files below a folder, in order, without links and special files. Raises Unreadable."""
    files: list[tuple[str, ...]] = []
    waiting: list[tuple[str, ...]] = [()]
    seen = 0
    while waiting:
        steps = waiting.pop()
        try:
            with top.below(*steps).handle() as descriptor, os.scandir(descriptor) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MAX_ENTRIES:
                        raise Unreadable(f"has more than {_MAX_ENTRIES} files")
                    if entry.is_dir(follow_symlinks=False) and len(steps) < _DEEPEST_FOLDER:
                        waiting.append((*steps, entry.name))
                    elif entry.is_file(follow_symlinks=False):
                        files.append((*steps, entry.name))
        except (FileNotFoundError, PermissionError, UnsafePath):
            continue
    return sorted(files)
