"""The programs of docs/contract.md keep the contract; each is compiled and run where its compiler is."""

import json
import os
import re
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from ..needs import require

PAGE = Path(__file__).parents[2] / "docs/contract.md"
BUILDS = {
    "sh": ("sh", []),
    "js": ("node", []),
    "c": ("cc", ["cc", "-std=gnu11", "-Wall", "-Werror", "-o", "program", "program.c"]),
    "go": ("go", ["go", "build", "-o", "program", "program.go"]),
    "rust": ("rustc", ["rustc", "--edition", "2021", "-o", "program", "program.rust"]),
}
HARMONIC = sum(1 / number for number in range(1, 11))


@pytest.fixture(scope="module", params=BUILDS)
def program(request, tmp_path_factory) -> list[str]:
    """The command of the page's program in one language."""
    tool, build = BUILDS[request.param]
    require(tool)
    (source,) = re.findall(rf"^```{request.param}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / f"program.{request.param}"
    path.write_text(source)
    if not build:
        return [tool, str(path)]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [str(folder / "program")]


def run(program: list[str], **variables: Path | str) -> subprocess.CompletedProcess:
    plain = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    env = {**plain, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run(program, env=env, capture_output=True, text=True)


def test_the_result_is_published_once_with_a_trace_and_a_curve(program, tmp_path):
    result, metrics = tmp_path / "result.json", tmp_path / "metrics.csv"
    variables = {
        "EVO_RESULT_PATH": result,
        "EVO_TRACES_DIR": tmp_path / "traces",
        "EVO_EXPERIMENT_ID": "1.3",
        "LOOPTY_METRICS_CSV": metrics,
    }
    done = run(program, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    published = json.loads(result.read_text())
    assert published["score"] == pytest.approx(HARMONIC, abs=1e-5)
    assert published["tasks"] == {"sum": published["score"]}
    trace = json.loads((tmp_path / "traces/task_sum.json").read_text())
    assert (trace["experiment_id"], trace["task_id"]) == ("1.3", "sum")
    assert datetime.fromisoformat(trace["ended_at"])
    assert metrics.read_text().splitlines()[0] == "iteration,sum"
    assert not list(tmp_path.glob("*.tmp"))
    again = run(program, **variables)
    assert again.returncode != 0
    assert json.loads(result.read_text()) == published


def test_without_the_variables_the_result_is_printed(program):
    done = run(program)
    assert done.returncode == 0
    assert json.loads(done.stdout)["score"] == pytest.approx(HARMONIC, abs=1e-5)
