"""What every result format has: where its tool writes and how that is read, and the timings of named benchmarks as
metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopty.domain.objective import SCORE, Direction
from loopty.evaluators.result import ParsedResult, TrialOutput, choose_score, finite_number, geometric_mean
from loopty.kit.records import Record
from loopty.kit.untrusted_files import Unreadable, is_printable_name

Environment = Mapping[str, str]


def _same(environment: Environment, _result: str, _outbox: str) -> Environment:
    return environment


class ResultFormat(Record):
    """How the output of a benchmark becomes metrics."""

    read: Callable[[TrialOutput, str], ParsedResult | None]
    """The result, or None where the benchmark has written nothing. The text names the score; where it is empty,
    the format chooses. Raises Unreadable."""
    missing: str
    """What to say, with the remedy, where the benchmark has written nothing."""
    environment: Callable[[Environment, str, str], Environment] = _same
    """The task's variables with those that tell the tool where to write: given the path of the result file and of
    the outbox, as the benchmark sees them."""
    on_stdout: bool = False
    """Whether the result is what the benchmark prints; the variable of the result file is then not set."""


MAX_BENCHMARKS = 1_000
_MAIN = ("median", "mean", "min")
"""The figure of a benchmark that goes into the score: the first of these that its tool gives."""


class Timings:
    """Collects the figures of benchmarks."""

    def __init__(self) -> None:
        self._benchmarks: dict[str, Mapping[str, float]] = {}
        self._others: dict[str, Mapping[str, float]] = {}

    def add(
        self, name: Any, seconds: Mapping[str, float], higher_is_better: Mapping[str, float] | None = None
    ) -> None:
        """Add a benchmark: figures in seconds, and others such as rates. Raises Unreadable."""
        if not isinstance(name, str) or not is_printable_name(name):
            raise Unreadable(f"has a benchmark whose name is not one short line: {str(name)[:40]!r}")
        if name in self._benchmarks:
            raise Unreadable(f"has two benchmarks of the name {name[:60]!r}: name them apart, or run one of them")
        if len(self._benchmarks) == MAX_BENCHMARKS:
            raise Unreadable(f"has more than {MAX_BENCHMARKS} benchmarks")
        if any(value < 0 for value in seconds.values()):
            raise Unreadable(f"has a negative time of {name[:60]!r}")
        self._benchmarks[name] = seconds
        self._others[name] = higher_is_better or {}

    def result(self, score_key: str) -> ParsedResult | None:
        """Make metrics like `NAME.median` of the figures; the score is the geometric mean of the medians.

        With one benchmark it is its median. None where there is no benchmark. Raises Unreadable.
        """
        if not self._benchmarks:
            return None
        lower, higher = (
            {f"{name}.{figure}": value for name, figures in table.items() for figure, value in figures.items()}
            for table in (self._benchmarks, self._others)
        )
        directions = dict.fromkeys(lower, Direction.MIN) | dict.fromkeys(higher, Direction.MAX)
        rows = {
            name: next(figures[figure] for figure in _MAIN if figure in figures)
            for name, figures in self._benchmarks.items()
        }
        metrics = {SCORE: geometric_mean(rows.values()), **lower, **higher}
        return choose_score(ParsedResult(metrics, {SCORE: Direction.MIN, **directions}, rows=rows), score_key)


def seconds_of(figures: Mapping[str, Any], names: tuple[str, ...], unit: float = 1.0) -> dict[str, float]:
    """Select the named figures that are there, in seconds. Raises Unreadable for one that is not finite."""
    return {name: finite_number(figures[name], name) * unit for name in names if figures.get(name) is not None}
