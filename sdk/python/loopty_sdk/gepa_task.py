"""Evaluators of GEPA: a script that calls `optimize_anything(seed, evaluator=…)`.

The script runs until that call, which says what scores a candidate, and on which examples.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from .gepa_settings import OptimizationCall, optimize_anything
from .peer_results import artifact_texts, is_number
from .run import Run
from .script_run import run_script

_MODULE = "gepa.optimize_anything"


def evaluate(evaluator: str, program: str, _stage: str, _arguments: str) -> dict[str, Any]:
    """Score the candidate as the script's own call says: on its examples, or the held-out ones of an audit."""
    call = _call_of(evaluator)
    run = Run()
    examples = _examples(call, is_audit=run.mode == "audit")
    results = _results(call, _candidate(program), examples)
    if not examples:
        score, info = results[0]
        return {"score": score, "metrics": _numbers(info), "artifacts": artifact_texts(_texts(info))}
    scores = {}
    for name, (score, info) in zip(_names(examples), results):  # noqa: B905 - strict needs Python 3.10
        scores[name] = score
        feedback = artifact_texts(_texts(info))
        run.log_task(name, score, summary=feedback.pop("feedback", None), log=feedback or None)
    return {"score": sum(scores.values()) / len(scores), "tasks": scores}


def _call_of(script: str) -> OptimizationCall:
    """Run the script until it calls the optimiser, and take what it asks for."""
    import_module(_MODULE).optimize_anything = optimize_anything  # type: ignore[attr-defined]
    try:
        error = run_script(script)
    except OptimizationCall as call:
        return call
    sys.exit(f"{script} does not call optimize_anything{error and f': {error}'}")


def _candidate(path: str) -> str | dict[str, str]:
    """The text of the file; of a folder one text for each file, by its name without suffix."""
    if not os.path.isdir(path):  # noqa: PTH112
        return _read(path)
    names = sorted(name for name in os.listdir(path) if not name.startswith("."))  # noqa: PTH208
    return {os.path.splitext(name)[0]: _read(f"{path}/{name}") for name in names}  # noqa: PTH122


def _read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123
        return file.read()


def _examples(call: OptimizationCall, is_audit: bool) -> list[Any]:
    searched = call.given("dataset") or call.given("valset")
    held_out = call.given("test_set") or (call.given("valset") if call.given("dataset") else None)
    if is_audit and not held_out:
        sys.exit("the script names no held-out examples: neither test_set, nor valset beside dataset")
    return list((held_out if is_audit else searched) or [])


def _results(call: OptimizationCall, candidate: Any, examples: list[Any]) -> list[tuple[float, dict[str, Any]]]:
    evaluator, batch = call.given("evaluator"), call.given("batch_evaluator")
    if batch and (examples or not evaluator):
        return [_result(one) for one in batch([(candidate, example) for example in examples or [None]])]
    names = inspect.signature(evaluator).parameters
    state = {"opt_state": SimpleNamespace(best_example_evals=[])} if "opt_state" in names else {}
    if not examples:
        return [_result(evaluator(candidate, **state))]
    if "example" in names:
        return [_result(evaluator(candidate, example=example, **state)) for example in examples]
    return [_result(evaluator(candidate, example, **state)) for example in examples]


def _result(returned: Any) -> tuple[float, dict[str, Any]]:
    """The score and what the evaluator says about it. Raises ValueError for what is no finite number."""
    score, info = (returned[0], returned[-1]) if isinstance(returned, (tuple, list)) else (returned, None)
    if not is_number(score):
        raise ValueError(f"the evaluator returned {score!r:.80}, which is no finite number")
    return float(score), dict(info) if isinstance(info, Mapping) else {"feedback": info}


def _names(examples: list[Any]) -> list[str]:
    """Names of the examples: their own, if they differ, else their places."""
    own = [
        example.get("id") if isinstance(example, Mapping) else getattr(example, "id", None) for example in examples
    ]
    is_named = None not in own and len(set(map(str, own))) == len(own)
    return [str(name if is_named else place) for place, name in enumerate(own)]


def _numbers(info: Mapping[str, Any]) -> dict[str, float]:
    inner = info.get("scores")
    every = {**info, **(inner if isinstance(inner, Mapping) else {})}
    return {str(name): float(value) for name, value in every.items() if is_number(value)}


def _texts(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in info.items() if not is_number(value)}
