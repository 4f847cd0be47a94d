"""What `evaluate_program` does, in a module of its own: a warm process imports it before a command begins."""

from __future__ import annotations

import json
import math
import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from .publish import publish_once

_RESULT_MODULE = "openevolve.evaluation_result"
_USAGE = "usage: python3 -m loopty_sdk.evaluate_program EVALUATOR PROGRAM [--stage N]"
_HELP = f"""{_USAGE}

Score a program with evaluate(program_path).

  EVALUATOR  the file that has the function
  PROGRAM    the candidate's program
  --stage N  call evaluate_stageN, for the cascade"""


class EvaluationResult:
    """What evaluators import from OpenEvolve, where that is not installed."""

    def __init__(self, metrics: dict[str, Any], artifacts: dict[str, Any] | None = None) -> None:
        self.metrics = metrics
        self.artifacts = artifacts or {}


def main() -> None:
    evaluator, program, name = _arguments(sys.argv[1:])
    stdout = os.dup(1)
    os.dup2(2, 1)  # what evaluator and program print is no result
    function = getattr(_load(evaluator), name, None)
    if function is None:
        sys.exit(f"{evaluator} has no function {name}")
    text = json.dumps(result_of(function(os.path.abspath(program))), allow_nan=False)  # noqa: PTH100
    path = os.environ.get("EVO_RESULT_PATH")
    if path:
        publish_once(path, text)
    else:
        os.write(stdout, f"{text}\n".encode())


def _arguments(words: list[str]) -> tuple[str, str, str]:
    """The evaluator's file, the program's, and the name of the function."""
    # By hand: argparse takes longer than a short evaluation.
    if "-h" in words or "--help" in words:
        sys.stdout.write(f"{_HELP}\n")
        sys.exit()
    files, stage = [], ""
    rest = iter(words)
    for word in rest:
        option, has_value, value = word.partition("=")
        if option == "--stage":
            stage = value if has_value else next(rest, "")
            if not stage.isdecimal():
                _refuse(f"--stage needs a number, not {stage!r}")
        elif word.startswith("-"):
            _refuse(f"there is no option {option}")
        else:
            files.append(word)
    if len(files) != 2:
        _refuse(f"it needs two files, not {len(files)}")
    return files[0], files[1], f"evaluate_stage{int(stage)}" if stage else "evaluate"


def _refuse(reason: str) -> None:
    sys.stderr.write(f"{_USAGE}\n{reason}\n")
    sys.exit(2)


def result_of(returned: Any) -> dict[str, Any]:
    """The result in what an evaluator returned: a dictionary, or an object with metrics. Raises ValueError."""
    metrics = getattr(returned, "metrics", returned)
    if not isinstance(metrics, dict):
        raise ValueError(f"the evaluator returned {type(returned).__name__}, not a dictionary of metrics")
    numbers = {str(name): float(value) for name, value in metrics.items() if _is_number(value)}
    if not numbers:
        raise ValueError(f"the evaluator returned no finite number: {metrics!r:.200}")
    score = numbers.get("combined_score", sum(numbers.values()) / len(numbers))
    return {"score": score, "metrics": numbers}


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, (bool, str, bytes)) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _load(path: str) -> ModuleType:
    sys.meta_path.append(_ResultFinder)  # after all others: an installed package is used
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120
    spec = spec_from_file_location("evaluator", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no Python file")
    module = sys.modules["evaluator"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _ResultFinder:
    """Lets `from openevolve.evaluation_result import EvaluationResult` work without the package."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        is_package = name == _RESULT_MODULE.partition(".")[0]
        if not is_package and name != _RESULT_MODULE:
            return None
        return ModuleSpec(name, _ResultFinder, is_package=is_package)  # type: ignore[arg-type]

    @staticmethod
    def create_module(_spec: ModuleSpec) -> None:
        """Let the interpreter make it."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        if module.__name__ == _RESULT_MODULE:
            module.EvaluationResult = EvaluationResult  # type: ignore[attr-defined]
