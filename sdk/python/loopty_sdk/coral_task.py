"""Graders of CORAL: a class `Grader(TaskGrader)` that looks at a folder of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from .peer_results import artifact_texts, is_number

_TIMEOUT = 300.0


class Score:
    """One score of a bundle."""

    def __init__(
        self, value: float | None, name: str = "score", explanation: str | None = None, **_more: Any
    ) -> None:
        self.value = value
        self.name = name
        self.explanation = explanation


class ScoreBundle:
    """What a grader returns: scores, their aggregate, and words."""

    def __init__(
        self,
        scores: dict[str, Any] | None = None,
        aggregated: float | None = None,
        feedback: str | None = None,
        metadata: dict[str, Any] | None = None,
        **_more: Any,
    ) -> None:
        self.scores = scores or {}
        self.aggregated = aggregated
        self.feedback = feedback
        self.metadata = metadata or {}


class TaskGrader:
    """What graders inherit from CORAL, where that is not installed."""

    codebase_path = ""
    private_dir = ""
    timeout = _TIMEOUT
    tune = False

    def __init__(self) -> None:
        self.args: dict[str, Any] = {}

    def get_python_command(self) -> list[str]:
        return [sys.executable]

    def run_program(self, filename: str, *arguments: str, timeout: float | None = None) -> Any:
        """Run a file of the candidate, in its folder."""
        command = [*self.get_python_command(), filename, *map(str, arguments)]
        limit = timeout or self.timeout
        return subprocess.run(
            command, cwd=self.codebase_path, capture_output=True, text=True, timeout=limit, check=False
        )

    def run_script_json(self, script: str, timeout: float | None = None) -> Any:
        """Run the text of a script in the candidate's folder; its last line is JSON."""
        command = [*self.get_python_command(), "-c", script]
        limit = timeout or self.timeout
        done = subprocess.run(
            command, cwd=self.codebase_path, capture_output=True, text=True, timeout=limit, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-2_000:] or f"the script ended with {done.returncode}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def score(
        self, value: float | None, explanation: str = "", feedback: str | None = None, **metadata: Any
    ) -> ScoreBundle:
        return ScoreBundle({"score": Score(value, "score", explanation)}, value, feedback or explanation, metadata)

    def fail(self, explanation: str = "", feedback: str | None = None, **metadata: Any) -> ScoreBundle:
        return self.score(None, explanation, feedback, **metadata)


def evaluate(evaluator: str, program: str, _stage: str, arguments: str) -> dict[str, Any]:
    """Let the grader look at the candidate's folder. A grader that fails it gives no score."""
    folder = os.path.dirname(os.path.abspath(evaluator))  # noqa: PTH100, PTH120
    sys.path[:0] = [folder, os.path.dirname(folder)]  # noqa: PTH120
    spec = spec_from_file_location("grader", evaluator)
    if spec is None or spec.loader is None:
        sys.exit(f"{evaluator} is no Python file")
    module = sys.modules["grader"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    grader = module.Grader()
    given = json.loads(arguments or "{}")
    grader.args = given.get("args", {})
    grader.timeout = given.get("timeout", _TIMEOUT)
    grader.codebase_path, grader.private_dir = os.path.abspath(program), folder  # noqa: PTH100
    return _result(grader.evaluate())


def _result(returned: Any) -> dict[str, Any]:
    if is_number(returned):
        return {"score": float(returned)}
    scores = {name: getattr(one, "value", one) for name, one in (getattr(returned, "scores", None) or {}).items()}
    numbers = {str(name): float(value) for name, value in scores.items() if is_number(value)}
    total = getattr(returned, "aggregated", None)
    if total is None and len(numbers) == 1:
        (total,) = numbers.values()
    feedback = getattr(returned, "feedback", None)
    if not is_number(total):
        sys.exit(f"the grader gave no score: {feedback or returned!s:.400}")
    artifacts = artifact_texts({"feedback": feedback, **(getattr(returned, "metadata", None) or {})})
    return {
        "score": float(total),  # type: ignore[arg-type]
        "metrics": {name: value for name, value in numbers.items() if name != "score"},
        **({"artifacts": artifacts} if artifacts else {}),
    }
