"""The command that publishes the CPU time of tests without their start."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..needs import require
from .conftest import SDK

BURN = "sum(range(2_000_000))"


def run(trial: Any, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loopty_sdk.test_time", *words],
        env={**os.environ, **trial.environment, "PYTHONPATH": str(SDK / "python")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def run_pytest(trial: Any, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(text)
    return run(trial, folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_what_the_module_does_when_it_is_loaded_does_not_count(trial: Any, tmp_path: Path) -> None:
    done = run_pytest(trial, tmp_path, f"{BURN}\ndef test_little(): sum(range(1000))\n")
    assert done.stdout.count("1 passed") == 1, "the repetitions are silent"
    assert trial.result()["score"] < 0.01


def test_what_one_run_of_the_tests_has_cached_does_not_help_the_next(trial: Any, tmp_path: Path) -> None:
    run_pytest(trial, tmp_path, f"seen = []\ndef test_much():\n    seen or {BURN}\n    seen.append(1)\n")
    assert trial.result()["score"] > 0.005


def test_tests_that_fail_have_no_time(trial: Any, tmp_path: Path) -> None:
    assert run_pytest(trial, tmp_path, "def test_it(): assert False\n").returncode == 1
    assert not trial.result_path.exists()


def test_code_of_the_repository_counts_in_node_and_no_other(trial: Any, tmp_path: Path) -> None:
    require("node")
    work = "let s = 0; for (let i = 0; i < 1e7; i++) s += i % 7; return s;"
    (tmp_path / "test").mkdir()
    (tmp_path / "own.js").write_text(f"exports.own = () => {{ {work} }};\n")
    (tmp_path / "test/small.js").write_text(f"const all = () => {{ {work} }}; all(); all(); all();\n")
    (tmp_path / "test/both.js").write_text(f"const all = () => {{ {work} }}; all(); require('../own.js').own();\n")
    assert run(trial, tmp_path, "node", "test/small.js").returncode == 1
    assert run(trial, tmp_path, "node", "test/both.js").returncode == 0
    assert trial.result()["score"] > 0.001


def test_programs_that_cargo_built_say_what_they_take(trial: Any, tmp_path: Path) -> None:
    runner = f"CARGO_TARGET_{platform.machine().upper()}_UNKNOWN_LINUX_GNU_RUNNER"
    program = f"{sys.executable} -c '{BURN}; {BURN}'; test 3 = \"$(${runner} {sys.executable} -c 'print(1 + 2)')\""
    assert run(trial, tmp_path, program).returncode == 0
    assert trial.result()["score"] < 0.1
