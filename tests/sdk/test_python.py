"""What only the Python SDK does."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCES = sorted((Path(__file__).parents[2] / "sdk" / "python" / "loopty_sdk").glob("*.py"))
PREAMBLE = "from loopty_sdk import Run\nrun = Run()\n"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_sdk_is_python_3_8_without_dependencies(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 8))
    known = sys.stdlib_module_names | (
        {"pytest"} if source.name == "pytest_bodies.py" else set()
    )  # a plug-in of it
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {name.name.split(".")[0] for name in node.names} <= known
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            assert str(node.module).split(".")[0] in known


def test_the_result_goes_to_the_original_standard_output(trial: Any) -> None:
    ended = trial.run("python", PREAMBLE + "import sys\nsys.stdout = sys.stderr\nrun.finish(1)\n", bare=True)
    assert '"score": 1' in ended.stdout
    assert ended.stderr == ""


def test_threads_may_log_tasks_at_once(trial: Any) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    list(pool.map(lambda task: run.log_task(task, task % 2), range(200)))
run.finish()
"""
    assert trial.run("python", PREAMBLE + code).returncode == 0
    assert trial.result()["score"] == 0.5
    assert len(list(trial.traces.glob("task_*.json"))) == 200


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("run.report('t1', 0.5)", "log_task"),
        ("run.report('t1', score=0.5)", "log_task"),
        ("run.report(1, summary='done')", "must be a number"),
        ("run.report(True, loss=1)", "step must be"),
        ("run.report(1)", "at least one metric"),
        ("run.report(1, loss=float('nan'))", "must be finite"),
        ("run.report(1, iteration=2)", "cannot be called"),
        ("run.report(1, {'a\\nb': 2})", "cannot be called"),
        ("run.log_task('t', float('inf'))", "must be finite"),
        ("run.log_task('t', 1, log=object())", "JSON serializable"),
    ],
)
def test_misuse_says_what_to_do_and_writes_nothing(trial: Any, call: str, remedy: str) -> None:
    ended = trial.run("python", PREAMBLE + call)
    assert ended.returncode == 1
    assert remedy in ended.stderr
    assert not trial.metrics.exists()
    assert not trial.traces.exists()


def test_metrics_may_be_named_like_the_arguments(trial: Any) -> None:
    assert trial.run("python", PREAMBLE + "run.report(1, step=2, metrics=3)\n").returncode == 0
    assert trial.rows() == [["iteration", "step", "metrics"], ["1", "2", "3"]]


def test_parameters_that_are_not_an_object_are_refused(trial: Any) -> None:
    trial.params.write_text("[1]")
    assert "JSON object" in trial.run("python", PREAMBLE + "run.params").stderr
