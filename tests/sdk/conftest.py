"""The environment of a trial, and real interpreters that run a benchmark in it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..needs import require

SDK = Path(__file__).parents[2] / "sdk"


@dataclass(frozen=True, slots=True)
class Trial:
    """The files that the environment variables of a benchmark name, in a directory of their own."""

    root: Path

    @property
    def result_path(self) -> Path:
        return self.root / "result.json"

    @property
    def traces(self) -> Path:
        return self.root / "traces"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.csv"

    @property
    def stop(self) -> Path:
        return self.root / "stop"

    @property
    def params(self) -> Path:
        return self.root / "params.json"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "EVO_RESULT_PATH": str(self.result_path),
            "EVO_TRACES_DIR": str(self.traces),
            "EVO_EXPERIMENT_ID": "1.3",
            "LOOPTY_MODE": "audit",
            "LOOPTY_PARAMS": str(self.params),
            "LOOPTY_METRICS_CSV": str(self.metrics),
            "LOOPTY_SEED": "7",
            "LOOPTY_STOP_PATH": str(self.stop),
        }

    def start(self, language: str, code: str, *, bare: bool = False, before: str = "") -> subprocess.Popen[str]:
        """Start a benchmark; `bare` sets no variables, `before` is sh code that runs first in its process."""
        return subprocess.Popen(
            ["sh", "-c", f'{before}\nexec "$@"', "sh", *_command(language, code, self.root)],
            env=_base_environment() | ({} if bare else self.environment),
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, language: str, code: str, *, bare: bool = False, before: str = ""
    ) -> subprocess.CompletedProcess[str]:
        with self.start(language, code, bare=bare, before=before) as process:
            out, err = process.communicate(timeout=60)
            return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.result_path.read_text())
        return result

    def rows(self) -> list[list[str]]:
        with self.metrics.open(newline="") as file:
            return list(csv.reader(file))


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    trial = Trial(tmp_path)
    trial.params.write_text(json.dumps({"nested": {"rate": 9}, "rate": 0.25, "name": 'a "b" \\ {c}', "on": True}))
    return trial


def _base_environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(SDK / "python"), "PYTHONDONTWRITEBYTECODE": "1"}


def _command(language: str, code: str, root: Path) -> list[str]:
    interpreter = sys.executable if language == "python" else require(language)
    _install(language, root)
    suffix = {"python": ".py", "sh": ".sh", "node": ".mjs" if "import " in code else ".cjs"}[language]
    # A new file each time: an earlier benchmark of the same trial may still be starting from its own.
    descriptor, script = tempfile.mkstemp(suffix, "benchmark-", root)
    with os.fdopen(descriptor, "w") as file:
        file.write(code.replace(". loopty.sh", ". ./loopty.sh"))
    return [interpreter, script]


def _install(language: str, root: Path) -> None:
    if language == "sh" and not (root / "loopty.sh").exists():
        (root / "loopty.sh").symlink_to(SDK / "shell" / "loopty.sh")
    installed = root / "node_modules" / "loopty-sdk"
    if language == "node" and not installed.exists():
        installed.parent.mkdir()
        installed.symlink_to(SDK / "node")
