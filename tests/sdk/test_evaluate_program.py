"""The command that scores a program with an evaluator of OpenEvolve."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_EVALUATOR = """\
from pathlib import Path
from openevolve.evaluation_result import EvaluationResult

def evaluate(path):
    return EvaluationResult(metrics={"combined_score": float(Path(path).read_text())})

def evaluate_stage2(path):
    return {"a": 1.0, "b": 3.0}
"""


def _evaluate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "evaluator.py").write_text(_EVALUATOR)
    (folder / "program.txt").write_text("2.5")
    command = [sys.executable, "-m", "loopty_sdk.evaluate_program", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_an_evaluator_gets_the_result_class_of_a_package_that_is_not_installed(tmp_path: Path) -> None:
    done = _evaluate(tmp_path, "evaluator.py", "program.txt")
    assert json.loads(done.stdout) == {"score": 2.5, "metrics": {"combined_score": 2.5}}


@pytest.mark.parametrize("words", [("--stage", "2"), ("--stage=2",)])
def test_a_stage_has_a_function_of_its_own(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = _evaluate(tmp_path, "evaluator.py", *words, "program.txt")
    assert json.loads(done.stdout)["score"] == 2.0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("evaluator.py",), "it needs two files, not 1"),
        (("evaluator.py", "program.txt", "--stage", "x"), "--stage needs a number or `all`, not 'x'"),
        (("evaluator.py", "program.txt", "--stages", "1"), "there is no option --stages"),
    ],
)
def test_wrong_arguments_are_refused_with_the_usage(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    done = _evaluate(tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("usage:")
    assert done.stderr.splitlines()[-1] == reason


def test_help_names_the_arguments(tmp_path: Path) -> None:
    done = _evaluate(tmp_path, "--help")
    assert done.returncode == 0
    assert "--stage N" in done.stdout
