"""Reads the lines that `go test -bench` prints: `BenchmarkFib10-8  5000  280 ns/op  16 B/op  1 allocs/op`."""

from __future__ import annotations

import re
import statistics

from loopty.evaluators.formats.result_format import ResultFormat
from loopty.evaluators.formats.timings import SECONDS, Timings
from loopty.evaluators.result import ParsedResult
from loopty.evaluators.trial_output import TrialOutput

_LINE = re.compile(r"^(Benchmark\S*?)(?:-\d+)?\s+\d+\s+([0-9.]{1,30}) ns/op", re.MULTILINE)


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    runs: dict[str, list[float]] = {}
    for name, value in _LINE.findall(output.stdout().decode(errors="replace")):
        if value.count(".") <= 1 and value != ".":
            runs.setdefault(name, []).append(float(value) * SECONDS["ns"])
    timings = Timings()
    for name, values in runs.items():  # several with `-count`
        timings.add(
            name, {"median": statistics.median(values), "mean": statistics.fmean(values), "min": min(values)}
        )
    return timings.result(score_key)


FORMAT = ResultFormat(
    _read,
    "stdout has no line of a Go benchmark: run `go test -bench=. -run=^$` and let it print to stdout",
    on_stdout=True,
)
