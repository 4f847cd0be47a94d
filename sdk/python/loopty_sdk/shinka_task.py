"""Evaluators of ShinkaEvolve: a script that writes `metrics.json` and `correct.json`."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from .peer_results import artifact_texts, is_number
from .script_run import run_script

SCORE = "combined_score"


def evaluate(evaluator: str, program: str, _stage: str, arguments: str) -> dict[str, Any]:
    """Start the script as its tool does, and read what it wrote. An incorrect program is a failure."""
    more = [word for name, value in json.loads(arguments or "{}").items() for word in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory() as folder:
        error = run_script(evaluator, "--program_path", program, "--results_dir", folder, *more)
        verdict, metrics = _object(f"{folder}/correct.json"), _object(f"{folder}/metrics.json")
    if not verdict.get("correct"):
        sys.exit(f"incorrect: {verdict.get('error') or error or 'the evaluator wrote no correct.json'}")
    score = metrics.get(SCORE)
    if not is_number(score):
        sys.exit(f"metrics.json has no finite {SCORE}: {score!r:.80}")
    public = metrics.get("public")
    public = public if isinstance(public, dict) else {}
    texts = {name: value for name, value in public.items() if not is_number(value)}
    artifacts = artifact_texts({**texts, "text_feedback": metrics.get("text_feedback")})
    return {
        "score": float(metrics[SCORE]),
        "metrics": {str(name): float(value) for name, value in public.items() if is_number(value)},
        **({"artifacts": artifacts} if artifacts else {}),
        **({"private": private} if (private := artifact_texts(metrics.get("private") or {})) else {}),
    }


def _object(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def run_shinka_eval(
    program_path: str,
    results_dir: str,
    experiment_fn_name: str,
    num_runs: int,
    get_experiment_kwargs: Callable[[int], dict[str, Any]] | None = None,
    aggregate_metrics_fn: Callable[[list[Any]], dict[str, Any]] | None = None,
    validate_fn: Callable[[Any], tuple[bool, str | None]] | None = None,
    default_metrics_on_error: dict[str, Any] | None = None,
    **_options: Any,
) -> tuple[dict[str, Any], bool, str | None]:
    """Run the program's function so many times, validate and aggregate: what evaluators import from ShinkaEvolve.

    Runs follow each other, none is left out early and nothing is plotted.
    """
    errors: list[str] = []
    try:
        function = _function(program_path, experiment_fn_name)
        results, seconds = [], []
        for index in range(num_runs):
            keywords = get_experiment_kwargs(index) if get_experiment_kwargs else {"seed": index + 1}
            started_at = time.perf_counter()
            results.append(function(**keywords))
            seconds.append(time.perf_counter() - started_at)
            is_valid, reason = validate_fn(results[-1]) if validate_fn else (True, None)
            if not is_valid:
                errors.append(reason or "")
        count: dict[str, Any] = {"num_successful_runs": len(results)}
        metrics = aggregate_metrics_fn(results) if aggregate_metrics_fn else count
        mean = sum(seconds) / len(seconds) if seconds else 0.0
        metrics["execution_time_mean"] = mean
        spread = sum((one - mean) ** 2 for one in seconds) / len(seconds) if seconds else 0.0
        metrics["execution_time_std"] = math.sqrt(spread)
        error = f"Validation failed: {errors[0]}" if errors else None
        is_correct = not errors
        if SCORE in metrics and not math.isfinite(metrics[SCORE]):
            is_correct, error = False, error or f"{SCORE} is {metrics[SCORE]}"
    except Exception as failure:  # noqa: BLE001 - an incorrect program, as there
        print(f"Evaluation error: {failure}")
        metrics, is_correct, error = dict(default_metrics_on_error or {SCORE: 0.0}), False, str(failure)
    if validate_fn:
        metrics["all_validation_errors"] = errors
    metrics.pop("extra_data", None)
    os.makedirs(results_dir, exist_ok=True)  # noqa: PTH103
    for name, found in (("correct", {"correct": is_correct, "error": error}), ("metrics", metrics)):
        with open(f"{results_dir}/{name}.json", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(found, file, default=str)
    return metrics, is_correct, error


def _function(path: str, name: str) -> Callable[..., Any]:
    spec = spec_from_file_location("program", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] | None = getattr(module, name, None)
    if found is None:
        raise AttributeError(f"{path} has no function {name}")
    return found
