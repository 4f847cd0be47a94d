"""A trial as the objective sees it: its values, what it reports, and whether it should stop."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.objective import Direction
from loopty.domain.space import Parameter, Space, Value
from loopty.domain.trial import Row
from loopty.study.spaces import Categorical, Float, Int


class TrialPruned(Exception):  # noqa: N818 - Optuna's name
    """Raised by an objective whose trial should stop; `Trial.raise_if_pruned` does so."""


ShouldStop = Callable[[Sequence[Row]], str | None]
"""Tells why a trial with these reports should stop, or None."""


class Trial:
    """One call of the objective.

    >>> import loopty
    >>> def objective(trial):
    ...     x = trial.suggest_float("x", -1, 1)
    ...     return 1 - x * x
    >>> loopty.optimize(objective, trials=5, progress=False).best.score
    1.0
    """

    def __init__(
        self,
        name: str,
        number: int,
        params: Mapping[str, Value],
        space: Space,
        seed: str,
        should_stop: ShouldStop = lambda _: None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        """Its short name in the record, such as `@5`."""
        self.number = number
        """0 for the first trial of a run."""
        self.params: dict[str, Value] = dict(params)
        """The values of this trial; with `suggest_…`, those asked for so far."""
        self.folder = folder
        """The folder with the program of this trial, where a program is evolved."""
        self.reports: list[Row] = []
        self.suggested: dict[str, Parameter] = {}
        """The parameters that the objective described itself."""
        self.generator = random.Random(seed)
        """A generator with the seed of this trial."""
        self._proposed = dict(params)
        self._space = space
        self._should_stop = should_stop
        self._is_first = number == 0

    def __repr__(self) -> str:
        return f"Trial({self.name}, {self.params})"

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Return the value of a number in this trial."""
        return float(self._suggest(name, Float(low, high, step=step, log=log)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Return the value of a whole number in this trial."""
        return int(self._suggest(name, Int(low, high, step=step, log=log)))

    def suggest_categorical(self, name: str, choices: Sequence[Value]) -> Value:
        """Return the choice of this trial."""
        return self._suggest(name, Categorical(choices))

    def report(self, value: float, step: float) -> None:
        """Report a value on the way, such as the score after an epoch."""
        if not math.isfinite(value):
            raise ValueError(f"{self.name} reported {value} at step {step}: return or raise instead")
        self.reports.append(Row(float(step), {"score": float(value)}))

    def should_prune(self) -> bool:
        """Say whether this trial is so far behind the others that it should stop."""
        return bool(self.reports) and self._should_stop(self.reports) is not None

    def raise_if_pruned(self) -> None:
        """Raise TrialPruned if this trial should stop."""
        if self.reports and (reason := self._should_stop(self.reports)) is not None:
            raise TrialPruned(reason)

    def _suggest(self, name: str, parameter: Parameter) -> Value:
        if name in self.suggested and self.suggested[name] != parameter:
            raise Misuse(f"parameter {name} was suggested twice with different values in one trial: name one anew")
        if name not in self.suggested:
            self.suggested[name] = parameter
            value = self._proposed.get(name)
            if name not in self._proposed or not parameter.accepts(value):
                value = parameter.baseline if self._is_first else parameter.sample(self.generator)
            self.params[name] = value  # type: ignore[assignment]
        return self.params[name]

    def used_params(self) -> dict[str, Value] | None:
        """Return the values that the objective asked for; None if it asked for none by `suggest_…`."""
        return {name: self.params[name] for name in self.suggested} if self.suggested else None


def directions_of(direction: Direction) -> Mapping[str, Direction]:
    """Return the direction of what a trial reports."""
    return {"score": direction}
