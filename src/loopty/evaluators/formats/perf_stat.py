"""Reads the counts of `perf stat -x, -o $EVO_RESULT_PATH …` or `perf stat -j -o $EVO_RESULT_PATH …`."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.objective import SCORE, Direction
from loopty.evaluators.formats.result_format import ResultFormat
from loopty.evaluators.formats.timings import MAX_BENCHMARKS, SECONDS
from loopty.evaluators.result import ParsedResult, choose_score, finite_number
from loopty.evaluators.trial_output import RESULT, TrialOutput
from loopty.kit.untrusted_files import Unreadable, is_printable_name, json_object

_SEPARATORS = (",", ";", "\t")


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    raw = output.file(RESULT)
    if raw is None:
        return None
    metrics: dict[str, float] = {}
    for event, value, unit in _counts(raw.decode(errors="replace")):
        if not is_printable_name(event) or len(metrics) == MAX_BENCHMARKS:
            raise Unreadable("has events with names that are not short, or too many of them")
        try:
            metrics[event] = finite_number(float(value), event) * SECONDS.get(unit, 1.0)
        except ValueError:
            continue  # <not supported>, <not counted>
    if not metrics:
        return None
    directions = dict.fromkeys((SCORE, *metrics), Direction.MIN)
    return choose_score(ParsedResult({SCORE: next(iter(metrics.values())), **metrics}, directions), score_key)


def _counts(text: str) -> Iterator[tuple[str, str, str]]:
    """Event, count and unit, line by line."""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        if line.startswith("{"):
            fields = json_object(line.encode())
            yield str(fields.get("event", "")), str(fields.get("counter-value", "")), str(fields.get("unit", ""))
            continue
        separator = next((mark for mark in _SEPARATORS if mark in line), None)
        if separator is None:
            raise Unreadable("is neither CSV nor JSON: give `perf stat` the option -x, or -j")
        value, unit, event, *_ = [*line.split(separator), "", "", ""]
        yield event, value, unit


FORMAT = ResultFormat(
    _read, "perf counted no event: add `stat -x, -o $EVO_RESULT_PATH` to perf's options in benchmark.command"
)
