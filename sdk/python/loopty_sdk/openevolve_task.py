"""Evaluators of OpenEvolve and SkyDiscover: `evaluate(program_path)`, and its stages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from .peer_results import is_number, result_of

ALL_STAGES = "all"


class EvaluationResult:
    """What evaluators import from OpenEvolve, where that is not installed."""

    def __init__(self, metrics: dict[str, Any], artifacts: dict[str, Any] | None = None) -> None:
        self.metrics = metrics
        self.artifacts = artifacts or {}

    @classmethod
    def from_dict(cls, metrics: dict[str, Any]) -> EvaluationResult:
        return cls(metrics)

    def to_dict(self) -> dict[str, Any]:
        return self.metrics

    def has_artifacts(self) -> bool:
        return bool(self.artifacts)


def evaluate(evaluator: str, program: str, stage: str, _arguments: str) -> dict[str, Any]:
    """Call the evaluator's function: of a stage, of all stages in turn, or `evaluate`."""
    path = os.path.abspath(program)  # noqa: PTH100
    names = _functions(evaluator)
    if stage == ALL_STAGES:
        stages = [names[name] for name in map("evaluate_stage{}".format, (1, 2, 3)) if name in names]
        return result_of(_merged([stage(path) for stage in stages]))
    name = f"evaluate_stage{int(stage)}" if stage else "evaluate"
    if name not in names:
        sys.exit(f"{evaluator} has no function {name}")
    return result_of(names[name](path))


def _merged(results: list[Any]) -> EvaluationResult:
    """Merge the results of stages: a later one wins."""
    metrics: dict[str, Any] = {}
    artifacts: dict[str, Any] = {}
    for result in results:
        found = getattr(result, "metrics", result)
        metrics.update(found if not metrics else {name: one for name, one in found.items() if is_number(one)})
        artifacts.update(getattr(result, "artifacts", None) or {})
    return EvaluationResult(metrics, artifacts)


def _functions(path: str) -> dict[str, Callable[[str], Any]]:
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120
    spec = spec_from_file_location("evaluator", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is no Python file")
    module = sys.modules["evaluator"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)
