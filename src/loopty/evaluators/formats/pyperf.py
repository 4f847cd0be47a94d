"""Reads the lines that pyperf prints: `istr->istr: Mean +- std dev: 186 ns +- 64 ns`."""

from __future__ import annotations

import re

from loopty.evaluators.formats.result_format import ResultFormat
from loopty.evaluators.formats.timings import SECONDS, Timings
from loopty.evaluators.result import ParsedResult
from loopty.evaluators.trial_output import TrialOutput

_LINE = re.compile(
    r"^(\S[^\n]{0,200}?): Mean \+- std dev: ([0-9]{1,20}(?:\.[0-9]{1,10})?) (sec|ms|us|ns) \+- ", re.MULTILINE
)


def _read(output: TrialOutput, score_key: str) -> ParsedResult | None:
    timings = Timings()
    for name, value, unit in _LINE.findall(output.stdout().decode(errors="replace")):
        timings.add(name, {"mean": float(value) * SECONDS[unit]})
    return timings.result(score_key)


FORMAT = ResultFormat(
    _read,
    "stdout has no line of pyperf (`NAME: Mean +- std dev: 1.2 us +- 0.1 us`): give each benchmark a name",
    on_stdout=True,
)
