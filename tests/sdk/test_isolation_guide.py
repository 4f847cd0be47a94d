"""The isolated benchmarks in docs/benchmarks.md run by hand as they are printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    guide = (TOP / "docs" / "benchmarks.md").read_text()
    for name, text in re.findall(r"```py\n# (\S+)\n(.*?)```", guide, re.DOTALL):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TOP / "sdk" / "python")}
    command = [sys.executable, script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_the_example_of_an_isolated_candidate_gives_scores(folder: Path) -> None:
    ended = run(folder, "evaluate.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["tasks"] == {"10": 1.0, "100": 1.0}


def test_the_example_of_a_checked_run_finds_a_candidate_that_is_wrong_later(folder: Path) -> None:
    ended = run(folder, "measure.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    cheat = "calls = []\ndef solve(numbers):\n    calls.append(1)\n"
    cheat += "    return sorted(numbers) if len(calls) <= 100 else numbers\n"
    (folder / "program.py").write_text(cheat)
    ended = run(folder, "measure.py")
    assert ended.returncode == 1
    assert "in the measured run" in ended.stderr.splitlines()[-1]
