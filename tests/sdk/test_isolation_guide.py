"""The isolated benchmark in docs/benchmarks.md runs by hand as it is printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_the_example_of_an_isolated_candidate_gives_scores(tmp_path: Path) -> None:
    guide = (TOP / "docs" / "benchmarks.md").read_text()
    for name, text in re.findall(r"```py\n# (\S+)\n(.*?)```", guide, re.DOTALL):
        (tmp_path / name).write_text(text)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TOP / "sdk" / "python")}
    command = [sys.executable, "evaluate.py"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["tasks"] == {"10": 1.0, "100": 1.0}
