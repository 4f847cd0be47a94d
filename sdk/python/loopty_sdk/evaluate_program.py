"""Score a program with an evaluator of OpenEvolve or SkyDiscover, as it is: `evaluate(program_path)`.

    python3 -m loopty_sdk.evaluate_program evaluator.py program.py [--stage 1]

With `--stage N` it calls `evaluate_stageN` instead, for a stage of the cascade. The score is `combined_score`,
else the mean of the numbers. An exception is a failure, never a score.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from .json_text import encode
from .publish import publish_once

_RESULT_MODULE = "openevolve.evaluation_result"


class EvaluationResult:
    """What evaluators import from OpenEvolve, where that is not installed."""

    def __init__(self, metrics: dict[str, Any], artifacts: dict[str, Any] | None = None) -> None:
        self.metrics = metrics
        self.artifacts = artifacts or {}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m loopty_sdk.evaluate_program", description="Score a program with evaluate(program_path)."
    )
    parser.add_argument("evaluator", help="the file that has the function")
    parser.add_argument("program", help="the candidate's program")
    parser.add_argument("--stage", type=int, metavar="N", help="call evaluate_stageN, for the cascade")
    options = parser.parse_args()
    name = "evaluate" if options.stage is None else f"evaluate_stage{options.stage}"
    stdout = os.dup(1)
    os.dup2(2, 1)  # what evaluator and program print is no result
    function = getattr(_load(options.evaluator), name, None)
    if function is None:
        sys.exit(f"{options.evaluator} has no function {name}")
    text = encode(result_of(function(os.path.abspath(options.program))))  # noqa: PTH100
    path = os.environ.get("EVO_RESULT_PATH")
    if path:
        publish_once(path, text)
    else:
        os.write(stdout, f"{text}\n".encode())


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
    _provide_result_class()
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120
    spec = spec_from_file_location("evaluator", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no Python file")
    module = sys.modules["evaluator"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _provide_result_class() -> None:
    """Let `from openevolve.evaluation_result import EvaluationResult` work without the package."""
    try:
        from importlib import import_module

        import_module(_RESULT_MODULE)
    except ImportError:
        package = sys.modules.setdefault("openevolve", ModuleType("openevolve"))
        module = sys.modules[_RESULT_MODULE] = ModuleType(_RESULT_MODULE)
        module.EvaluationResult = EvaluationResult  # type: ignore[attr-defined]
        package.evaluation_result = module  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
