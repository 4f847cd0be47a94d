"""Every benchmark in docs/benchmarks.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
EXAMPLES = re.findall(r"```(python|js|sh)\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("tag", "code"), EXAMPLES, ids=lambda text: text if len(text) < 10 else "")
def test_an_example_publishes_a_result(trial: Any, tag: str, code: str) -> None:
    language = "node" if tag == "js" else tag
    ended = trial.run(language, code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert isinstance(trial.result()["score"], (int, float))
    assert not list(trial.root.glob("*.tmp"))
    assert trial.run(language, code).returncode != 0, "a second result must fail"


@pytest.mark.parametrize(("tag", "code"), EXAMPLES, ids=lambda text: text if len(text) < 10 else "")
def test_an_example_runs_by_hand(trial: Any, tag: str, code: str) -> None:
    ended = trial.run("node" if tag == "js" else tag, code, bare=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith('{"score":')
