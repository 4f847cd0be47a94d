"""Call `objective(trial)` of an Optuna script with the parameters of this trial.

    python3 -m loopty_sdk.evaluate_objective tune.py[:objective]

Optuna itself need not be installed, unless the script uses more of it than the trial.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from .run import Run

_USAGE = "usage: python3 -m loopty_sdk.evaluate_objective SCRIPT[:FUNCTION]"


class TrialPruned(Exception):  # noqa: N818 - the name that scripts import
    """What a script raises where its trial is not worth going on."""


class Trial:
    """The trial that the function gets: its parameters are those of loopty."""

    number = 0

    def __init__(self, run: Run) -> None:
        self._run = run
        self.params: dict[str, Any] = {}
        self.user_attrs: dict[str, Any] = {}

    def suggest_float(self, name: str, low: float, high: float, **_options: Any) -> float:
        return float(self._value(name, (low + high) / 2))

    def suggest_int(self, name: str, low: int, high: int, **_options: Any) -> int:
        return int(self._value(name, (low + high) // 2))

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        value = self._value(name, choices[0])
        if value not in choices:  # as None, which a task file names by its text
            self.params[name] = next((one for one in choices if repr(one) == value), value)
        return self.params[name]

    def report(self, value: float, step: int) -> None:
        self._run.report(step, {"score": value})

    def should_prune(self) -> bool:
        return self._run.should_stop()

    def set_user_attr(self, name: str, value: Any) -> None:
        self.user_attrs[name] = value

    def _value(self, name: str, usual: Any) -> Any:
        self.params[name] = self._run.params.get(name, usual)
        return self.params[name]


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.stderr.write(f"{_USAGE}\n")
        sys.exit(0 if "--help" in sys.argv or "-h" in sys.argv else 2)
    path, _, name = sys.argv[1].partition(":")
    run = Run()
    try:
        score = getattr(_load(path), name or "objective")(Trial(run))
    except Exception as end:  # the class may be of Optuna or of here
        if type(end).__name__ != TrialPruned.__name__:
            raise
        return  # the last reported row is the result
    run.finish(float(score))


def _load(path: str) -> ModuleType:
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120
    spec = spec_from_file_location("tuned_script", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no Python file")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as missing:
        if missing.name != "optuna":
            raise
        stand_in = ModuleType("optuna")
        stand_in.TrialPruned, stand_in.Trial = TrialPruned, Trial  # type: ignore[attr-defined]
        stand_in.exceptions = stand_in.trial = stand_in  # type: ignore[attr-defined]
        sys.modules["optuna"] = stand_in
        sys.stderr.write("optuna is not installed: loopty stands in for its trial\n")
        spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
