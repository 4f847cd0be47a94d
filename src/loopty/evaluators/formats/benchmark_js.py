"""Reads the lines that benchmark.js prints: `parse x 7,837 ops/sec ±7.25% (55 runs sampled)`."""

from __future__ import annotations

import re
import statistics

from loopty.evaluators.formats.result_format import ResultFormat
from loopty.evaluators.formats.timings import Timings
from loopty.evaluators.result import ParsedResult
from loopty.evaluators.trial_output import TrialOutput

_LINE = re.compile(r"^[ \t]*(\S[^\n]{0,200}?) x ([0-9][0-9,]{0,30}(?:\.[0-9]{1,10})?) ops/sec", re.MULTILINE)


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    rates: dict[str, list[float]] = {}
    for name, value in _LINE.findall(output.stdout().decode(errors="replace")):
        if rate := float(value.replace(",", "")):
            rates.setdefault(name, []).append(rate)
    timings = Timings()
    for name, values in rates.items():  # several suites may have one of the same name
        seconds = statistics.fmean(1 / rate for rate in values)
        timings.add(name, {"mean": seconds}, {"ops_per_second": 1 / seconds})
    return timings.result(score_key)


FORMAT = ResultFormat(
    _read,
    "stdout has no line of benchmark.js (`NAME x 1,000 ops/sec`): print String(event.target) after each cycle",
    on_stdout=True,
)
