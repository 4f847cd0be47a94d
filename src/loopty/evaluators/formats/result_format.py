"""What every result format has: where its tool writes, and how that is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loopty.evaluators.result import ParsedResult
from loopty.evaluators.trial_output import TrialOutput
from loopty.kit.records import Record

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
