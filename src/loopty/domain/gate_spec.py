"""Gates: conditions that a candidate must meet, whatever its score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from loopty.domain.objective import Metrics
from loopty.kit.option import option


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that must exit with 0, or a metric that must lie within bounds."""

    name: str = option("The gate's name in verdicts.")
    command: str | tuple[str, ...] = option(
        "Runs where the benchmark runs; exit code 0 passes. Without it, `metric` is checked.", ""
    )
    when: When = option(
        "Run the command `before` the benchmark or `after` it.",
        When.BEFORE,
    )
    timeout_seconds: float = option("Wall-clock limit of the command.", 60.0, above=0)
    metric: str = option("The reported metric that must lie within the bounds.", "")
    minimum: float | None = option("Smallest allowed value of the metric.", None)
    maximum: float | None = option("Largest allowed value of the metric.", None)

    @property
    def argv(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else tuple(self.command)

    def fault(self) -> str | None:
        """What is wrong with this gate, or None."""
        bounded = self.minimum is not None or self.maximum is not None
        if bool(self.command) == bool(self.metric):
            return "needs either a command or a metric"
        if self.metric and not bounded:
            return f"names the metric {self.metric} but no bound: give minimum or maximum"
        if self.command and bounded:
            return "has a bound but no metric: name the metric that it bounds"
        if not all(math.isfinite(bound) for bound in (self.minimum, self.maximum) if bound is not None):
            return "needs finite bounds"
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            return f"can never pass: {self.minimum:g} is above {self.maximum:g}"
        return None

    def refusal(self, metrics: Metrics) -> str | None:
        """Why these metrics do not pass, or None; for a gate with a metric."""
        value = metrics.get(self.metric)
        if value is None:
            return f"{self.metric} was not reported"
        if self.minimum is not None and value < self.minimum:
            return f"{self.metric} {value:g} is below {self.minimum:g}"
        if self.maximum is not None and value > self.maximum:
            return f"{self.metric} {value:g} is above {self.maximum:g}"
        return None


def command_gates(gates: Sequence[Gate], when: When) -> list[Gate]:
    """The gates that run a command at this time."""
    return [gate for gate in gates if gate.command and gate.when is when]


def metric_refusal(gates: Sequence[Gate], metrics: Metrics) -> str | None:
    """Which gate these metrics fail first, as a sentence, or None."""
    for gate in gates:
        if gate.metric and (reason := gate.refusal(metrics)):
            return f"gate {gate.name}: {reason}"
    return None
