"""Call the objective for one trial, and turn whatever comes of it into an outcome."""

from __future__ import annotations

import inspect
import math
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from loopty.domain.objective import SCORE
from loopty.domain.trial import Ending, Outcome
from loopty.kit.records import replace
from loopty.study.trial import Trial, TrialPruned

Objective = Callable[[Trial], Any]
_MOST_LINES = 12


def call_objective(objective: Objective, trial: Trial) -> Outcome | Awaitable[Outcome]:
    """Call it. An exception is a failed trial; KeyboardInterrupt passes."""
    started = time.perf_counter()
    try:
        value = objective(trial)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the objective raises is its result
        return _timed(outcome_of_error(error, trial), started)
    if inspect.isawaitable(value):
        return _await(value, trial, started)
    return _timed(outcome_of_value(value, trial), started)


async def _await(value: Awaitable[Any], trial: Trial, started: float) -> Outcome:
    try:
        outcome = outcome_of_value(await value, trial)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the objective raises is its result
        outcome = outcome_of_error(error, trial)
    return _timed(outcome, started)


def outcome_of_value(value: Any, trial: Trial) -> Outcome:
    """Return the outcome of what the objective returned: a number, or numbers by name."""
    given = value if isinstance(value, Mapping) else {SCORE: value}
    metrics: dict[str, float] = {}
    for name, each in given.items():
        try:
            metrics[str(name)] = number = float(each)
        except (TypeError, ValueError):
            return Outcome(Ending.FAILED, reason=f"the objective returned {each!r:.80} as {name}, not a number")
        if not math.isfinite(number):
            return Outcome(Ending.FAILED, reason=f"the objective returned {number} as {name}")
    step = trial.reports[-1].step if trial.reports else None
    return Outcome(Ending.FINISHED, metrics, step=step)


def outcome_of_error(error: BaseException, trial: Trial) -> Outcome:
    """Return the outcome of an exception."""
    if isinstance(error, TrialPruned) or type(error).__name__ == "TrialPruned":
        last = trial.reports[-1] if trial.reports else None
        reason = str(error) or "the objective stopped it"
        return Outcome(
            Ending.PRUNED, last.metrics if last else {}, reason=reason, step=last.step if last else None
        )
    lines = "".join(traceback.format_exception(error)).splitlines()[-_MOST_LINES:]
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return Outcome(Ending.FAILED, reason=text.splitlines()[0][:500], error_lines=tuple(lines))


def _timed(outcome: Outcome, started: float) -> Outcome:
    return replace(outcome, seconds=time.perf_counter() - started)
