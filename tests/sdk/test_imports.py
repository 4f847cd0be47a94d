"""What the SDK imports: a short trial notices every module of the standard library that it does not need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SDK = Path(__file__).parents[2] / "sdk/python"
SLOW = {"asyncio", "pathlib", "subprocess", "threading", "typing"}
COMMAND = """
import loopty_sdk.start_candidate, loopty_sdk.wire
from loopty_sdk import Run, candidate
Run().finish(1)
"""
FUNCTION = """
from loopty_sdk import Run, candidate
candidate("program.py:solve")
Run().finish(1)
"""


@pytest.mark.parametrize("benchmark", [COMMAND, FUNCTION], ids=["command", "function"])
def test_a_benchmark_imports_nothing_slow(benchmark: str) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{benchmark}\nimport sys\nprint(*sys.modules)"],
        env={"PYTHONPATH": str(SDK)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not SLOW & set(done.stdout.split()), done.stdout


def test_the_process_of_a_function_imports_nothing_slow(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nseen = list(sys.modules)\ndef names(): return seen\n")
    script = "from loopty_sdk import candidate\nimport json\nprint(json.dumps(candidate('program.py:names')()))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(SDK)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    own = {name for name in json.loads(done.stdout) if name.startswith("loopty")}
    assert own == {"loopty_function_server", "loopty_frames", "loopty_values"}
