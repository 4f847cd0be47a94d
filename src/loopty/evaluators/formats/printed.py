"""Formats of what benchmarks print: a score or a JSON object, and the lines of pyperf."""

from __future__ import annotations

import re

from loopty.domain.objective import NUMBER, SCORE, named_numbers, printed_not_finite
from loopty.evaluators.formats.result_format import ResultFormat, Timings
from loopty.evaluators.formats.units import SECONDS
from loopty.evaluators.result import ParsedResult, TrialOutput, choose_score, finite_number, parse_result
from loopty.kit.untrusted_files import Unreadable

_ALONE = re.compile(rf"(?<![\w.])({NUMBER})(?![\d.])")
_OBJECT = re.compile(rb"^(?:\xef\xbb\xbf)?\s*\{", re.MULTILINE)
_LONGEST_LINE = 1_000


def _read_printed_result(output: TrialOutput, score_key: str) -> ParsedResult | None:
    raw = output.stdout()
    if not raw.strip():
        return None
    try:
        # To the end: a second object would be a second result, and nobody could say which one counts.
        if match := _OBJECT.search(raw):
            return parse_result(raw[match.start() :], score_key)
        lines = [line.strip() for line in raw.decode(errors="replace").splitlines() if line.strip()]
        return _score_in_output(lines, score_key)
    except Unreadable as error:
        raise Unreadable(f"stdout {error}") from None


def _score_in_output(lines: list[str], score_key: str) -> ParsedResult:
    """Read lines like `accuracy: 0.93` as metrics; the score is `score`, else the only number of the last line."""
    _refuse_not_finite(lines, score_key or SCORE)
    named = {name: finite_number(number, name) for name, number in named_numbers(lines).items()}
    numbers = [float(number) for number in _ALONE.findall(lines[-1][:_LONGEST_LINE])]
    if SCORE not in named and not score_key and len(numbers) == 1:
        named = {SCORE: finite_number(numbers[0], SCORE), **named}
    return choose_score(ParsedResult(named), score_key)


def _refuse_not_finite(lines: list[str], key: str) -> None:
    """Raise Unreadable where the score, or the last line, is NaN or infinite: no other number stands for it."""
    for line in lines:
        found = printed_not_finite(line)
        if found and (found[0] == key or line is lines[-1]):
            finite_number(found[1], found[0] or key)


PRINTED_RESULT = ResultFormat(
    _read_printed_result, 'stdout is empty: print {"score": 1.0}, or a last line like `score: 1.0`', on_stdout=True
)


_PYPERF_LINE = re.compile(
    r"^(\S[^\n]{0,200}?): Mean \+- std dev: ([0-9]{1,20}(?:\.[0-9]{1,10})?) (sec|ms|us|ns) \+- ", re.MULTILINE
)


def _read_pyperf(output: TrialOutput, score_key: str) -> ParsedResult | None:
    timings = Timings()
    for name, value, unit in _PYPERF_LINE.findall(output.stdout().decode(errors="replace")):
        timings.add(name, {"mean": float(value) * SECONDS[unit]})
    return timings.result(score_key)


PYPERF = ResultFormat(
    _read_pyperf,
    "stdout has no line of pyperf (`NAME: Mean +- std dev: 1.2 us +- 0.1 us`): give each benchmark a name",
    on_stdout=True,
)
