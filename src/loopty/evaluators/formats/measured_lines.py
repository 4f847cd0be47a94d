"""The format of benchmarks that print lines of their own: a name, a number and its unit, as `parse: 12.3 ms`.

Of a program that counts what it does in a fixed time, the rate counts: how long it took was decided before.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence

from loopty.domain.objective import SCORE, Direction
from loopty.evaluators.formats.result_format import ResultFormat
from loopty.evaluators.formats.units import SECONDS, Measured, measured
from loopty.evaluators.result import ParsedResult, TrialOutput, choose_score, geometric_mean
from loopty.kit.records import Record
from loopty.kit.untrusted_files import Unreadable, is_printable_name

_LONGEST_LINE = 1_000
_MOST_LINES = 1_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TIMES = "|".join(sorted(map(re.escape, SECONDS), key=len, reverse=True))
_NUMBER_WITH_UNIT = re.compile(
    r"(?<![\w.,/-])(?P<value>\d[\d,_]{0,30}(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?)(?P<space>[ \t]{0,3})[(\[]?"
    r"(?P<unit>[^\W\d_]{1,16}[ \t]?(?:/|per\b)[ \t]?[^\W\d_]{1,16}"
    rf"|(?:{_TIMES})|[kM]?[hH]z|rps|qps|fps)(?![\w/%])"
)
_COUNT = re.compile(r"(?<![\w.])\d[\d,._]*(?![\w.])")
_NAME_END = re.compile(r":|\||\t| {2,}| [-–—→>]+ ")
_LABEL_END = re.compile(r"(?:[:=|>→]|\t| {2,}| [-–—])[ \t~≈(]*$")
_BEFORE_NUMBER = " \t:=|-–—→>~≈(['\"*•└├─│.,"
_PER_OPERATION, _RATE_OF_BYTES, _TIME = 0, 1, 2
_END_OF_PART = re.compile(r"[ .)!]*(?:$|[,;(\[|±])")
_AMBIGUOUS = ("h", "m", "s")
"""Letters that are a unit only beside their number or at a line's end: `12 m` may be anything."""
_TOTALS = re.compile(r"\b(?:total|overall|elapsed|took|done|finished|duration|warm-?up|all)\b", re.IGNORECASE)


_TEST_SUMMARY = re.compile(r"\b(?:passed|failed|skipped|warnings?|errors?|ran|tests?)\b.* in\b", re.IGNORECASE)
"""What a test runner prints at its end: `12 passed in 0.52s`, `Ran 3 tests in 0.1s`."""


class MeasuredLine(Record):
    """A printed number with its unit."""

    name: str
    number: Measured
    kind: int
    """What it says: how long an operation takes, how many bytes a second, or how long something took."""


def measured_lines(text: str) -> list[MeasuredLine]:
    """Find the lines with a number and a unit; the most telling kind alone."""
    found = [line for line in map(_measured_line, _lines(text)) if line]
    if not found:
        return []
    best = min(line.kind for line in found)
    found = [line for line in found if line.kind == best]
    parts = [line for line in found if not _TOTALS.search(line.name)]
    return parts if len({line.name for line in parts}) > 1 else found


def _lines(text: str) -> Iterator[str]:
    for line, _ in zip(_COLOUR.sub("", text).splitlines(), range(_MOST_LINES), strict=False):
        yield line[:_LONGEST_LINE]


def _measured_line(line: str) -> MeasuredLine | None:
    """Read the number of a line that says most: of one operation, else the first."""
    found = [(one, number) for one in _NUMBER_WITH_UNIT.finditer(line) if (number := _number(line, one))]
    if not found or _TEST_SUMMARY.search(line):
        return None
    match, number = min(found, key=lambda item: _kind(item[0]["unit"], item[1]))
    first = found[0][0]
    return MeasuredLine(_name(line[: first.start()]), number, _kind(match["unit"], number))


def _number(line: str, found: re.Match[str]) -> Measured | None:
    if found["unit"] in _AMBIGUOUS and found["space"] and not _END_OF_PART.match(line, found.end()):
        return None
    return measured(found["value"], found["unit"])


def _kind(unit: str, number: Measured) -> int:
    if number.is_bytes:
        return _RATE_OF_BYTES
    return _PER_OPERATION if number.is_rate or unit not in SECONDS else _TIME


def _name(before: str) -> str:
    """Name a line by what stands before its number. Counts in a sentence may differ each time, not in a label."""
    is_label = _LABEL_END.search(before) is not None
    head = [part.strip(_BEFORE_NUMBER) for part in _NAME_END.split(before.strip(_BEFORE_NUMBER))]
    name = next((part for part in head if re.search(r"[^\W\d_]", part)), "")
    return " ".join((name if is_label else _COUNT.sub("#", name)).split())[:80] or "time"


def _read_units(output: TrialOutput, score_key: str) -> ParsedResult | None:
    lines = measured_lines(output.stdout().decode(errors="replace"))
    if not lines:
        return None
    return choose_score(_result(lines), score_key)


def _result(lines: Sequence[MeasuredLine]) -> ParsedResult:
    """Make one metric of each name; the score is their geometric mean, as rates if all of them are rates."""
    all_rates = all(line.number.is_rate for line in lines)
    named: dict[str, list[float]] = {}
    for line in lines:
        value = line.number.value
        if line.number.is_rate and not all_rates:
            if value <= 0:
                continue
            value = 1 / value  # beside times, a rate counts as the time of one operation
        if not is_printable_name(line.name):
            raise Unreadable(f"has a line whose name is not short: {line.name[:40]!r}")
        named.setdefault(line.name, []).append(value)
    figure, direction = ("rate", Direction.MAX) if all_rates else ("mean", Direction.MIN)
    rows = {name: statistics.fmean(values) for name, values in named.items()}
    metrics = {f"{name}.{figure}": value for name, value in rows.items()}
    directions = dict.fromkeys((SCORE, *metrics), direction)
    return ParsedResult({SCORE: geometric_mean(rows.values()), **metrics}, directions, rows=rows)


UNITS = ResultFormat(
    _read_units,
    "stdout has no number with a unit of time or throughput (`parse: 12.3 ms`, `parse: 400 ops/s`)",
    on_stdout=True,
)
