"""The cascade: cheap commands before the benchmark, which stop a candidate that is not worth the whole of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from loopty.domain.objective import SCORE, Metrics
from loopty.kit.option import option
from loopty.kit.records import Record


@dataclass(frozen=True, slots=True)
class CascadeStage:
    """A cheap command that reports a metric, and the bounds that a candidate must meet to get further."""

    name: str = option("The stage's name in reasons and reports.", filled=True)
    command: str | tuple[str, ...] = option(
        "Runs where the benchmark runs, before it, and reports its result in the same way.", filled=True
    )
    timeout_seconds: float = option("Wall-clock limit of the command.", 60.0, above=0)
    metric: str = option("The metric of its result that must lie within the bounds.", SCORE)
    minimum: float | None = option("Smallest value that passes.", None)
    maximum: float | None = option("Largest value that passes.", None)

    @property
    def argv(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else self.command

    def fault(self) -> str | None:
        """What is wrong with this stage, or None."""
        bounds = [bound for bound in (self.minimum, self.maximum) if bound is not None]
        if not bounds:
            return "stops no candidate: give minimum or maximum"
        if not all(map(math.isfinite, bounds)):
            return "needs finite bounds"
        if len(bounds) == 2 and bounds[0] > bounds[1]:
            return f"lets no candidate go on: {bounds[0]:g} is above {bounds[1]:g}"
        return None

    def refusal(self, metrics: Metrics) -> str | None:
        """Why a candidate with these metrics does not go on, or None."""
        value = metrics.get(self.metric)
        if value is None:
            return f"stage {self.name}: {self.metric} was not reported"
        if self.minimum is not None and value < self.minimum:
            return f"stage {self.name}: {self.metric} {value:g} is below {self.minimum:g}"
        if self.maximum is not None and value > self.maximum:
            return f"stage {self.name}: {self.metric} {value:g} is above {self.maximum:g}"
        return None


class StageResult(Record):
    """What one stage of the cascade measured in a trial. It is never ranked: stages measure different things."""

    name: str
    value: float | None
    """The value of its metric; None where it reported none."""
    seconds: float
