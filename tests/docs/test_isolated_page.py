"""The benchmark and the task file of docs/isolated.md work as printed, here on a package of the same shape."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..needs import require

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs/isolated.md").read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in re.findall(r"```(?:py|toml)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(text)
    (tmp_path / "src/mistune").mkdir(parents=True)
    (tmp_path / "src/mistune/__init__.py").write_text("from .core import html\n")
    (tmp_path / "src/mistune/core.py").write_text("def html(text):\n    return f'<p>{text}</p>'\n")
    shutil.copytree(tmp_path / "src", tmp_path / "reference")
    (tmp_path / "benchmark/cases").mkdir(parents=True)
    (tmp_path / "benchmark/cases/a.txt").write_text("one\n\ntwo\n\nthree\n")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def run(repository: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(TOP / "sdk/python"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=repository, env=environment, capture_output=True, text=True, timeout=120
    )


def test_it_runs_by_hand_and_finds_a_wrong_answer(repository: Path) -> None:
    ended = run(repository, "bench.py")
    assert ended.returncode == 0, ended.stderr
    (repository / "src/mistune/core.py").write_text("def html(text):\n    return ''\n")
    ended = run(repository, "bench.py")
    assert ended.returncode == 1
    assert "in the measured run" in ended.stderr.splitlines()[-1]


def test_it_runs_in_a_trial(repository: Path) -> None:
    require("bwrap")
    ended = run(repository, "-m", "loopty", "run", "1", "--check")
    assert ended.returncode == 0, ended.stdout + ended.stderr
