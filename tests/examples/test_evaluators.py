"""The evaluators of the examples, run as in a trial: right results get a score, wrong ones get none."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopty.taskfile.read import load

from ..needs import needs

TOP = Path(__file__).parents[2]
EXAMPLES = TOP / "examples"

Circle = list[float]


@dataclass(frozen=True, slots=True)
class ExampleTrial:
    """A copy of an example, with the files that its evaluator reads and writes."""

    tree: Path
    outbox: Path

    def run(
        self, *command: str, params: object = None, published: str = "file"
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(TOP / "sdk" / "python"),
            "LOOPTY_SEED": "7",
            "LOOPTY_METRICS_CSV": str(self.metrics),
            "LOOPTY_STOP_PATH": str(self.stop),
            "LOOPTY_PARAMS": str(self.outbox / "params.json"),
        }
        if published == "file":
            environment["EVO_RESULT_PATH"] = str(self.result)
        (self.outbox / "params.json").write_text(json.dumps(params or {}))
        return subprocess.run(
            [sys.executable, *command], cwd=self.tree, env=environment, capture_output=True, text=True, timeout=60
        )

    @property
    def result(self) -> Path:
        return self.outbox / "result.json"

    @property
    def metrics(self) -> Path:
        return self.outbox / "metrics.csv"

    @property
    def stop(self) -> Path:
        return self.outbox / "stop"

    def score(self) -> float:
        score = json.loads(self.result.read_text())["score"]
        assert isinstance(score, float)
        return score

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.tree / name).read_text()
        assert old in text
        (self.tree / name).write_text(text.replace(old, new))


def copy_example(name: str, folder: Path) -> ExampleTrial:
    shutil.copytree(EXAMPLES / name, folder / "tree", ignore=shutil.ignore_patterns("build", "__pycache__"))
    (folder / "outbox").mkdir()
    return ExampleTrial(folder / "tree", folder / "outbox")


@pytest.fixture
def packing(tmp_path: Path) -> ExampleTrial:
    return copy_example("circle_packing", tmp_path)


@pytest.fixture
def kernel(tmp_path: Path) -> ExampleTrial:
    return copy_example("c_kernel", tmp_path)


@pytest.fixture
def training(tmp_path: Path) -> ExampleTrial:
    return copy_example("training", tmp_path)


def pack(trial: ExampleTrial, *, program: str | None = None) -> subprocess.CompletedProcess[str]:
    if program is not None:
        (trial.tree / "program.py").write_text(program)
    return trial.run("-S", "evaluate.py", published="stdout")


def is_refused(process: subprocess.CompletedProcess[str], reason: str) -> bool:
    return process.returncode != 0 and process.stdout == "" and reason in process.stderr.splitlines()[-1]


def grid() -> list[Circle]:
    """Circles of radius 1/16 in rows of six, each touching its neighbours: a packing without slack."""
    return [[(2 * (i % 6) + 1) / 16, (2 * (i // 6) + 1) / 16, 1 / 16] for i in range(26)]


def program_that_prints(circles: Sequence[object]) -> str:
    return f"print({json.dumps(circles)!r})"


def test_the_first_packing_scores_the_sum_of_its_radii(packing: ExampleTrial) -> None:
    process = pack(packing)
    assert (process.returncode, process.stderr) == (0, "")
    circles = subprocess.run(
        [sys.executable, packing.tree / "program.py"], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(process.stdout) == {"score": math.fsum(radius for _, _, radius in json.loads(circles))}
    assert json.loads(process.stdout)["score"] == pytest.approx(1.64928, abs=1e-5)


def test_circles_that_touch_exactly_are_a_packing(packing: ExampleTrial) -> None:
    process = pack(packing, program=program_that_prints(grid()))
    assert json.loads(process.stdout) == {"score": 26 / 16}


@pytest.mark.parametrize(
    ("index", "change", "reason"),
    [
        (7, (0.0, 0.0, 1e-15), "overlap"),
        (7, (1e-15, 0.0, 0.0), "overlap"),
        (0, (-1e-15, 0.0, 0.0), "out of the square"),
        (0, (0.0, 0.0, -1.0), "no positive radius"),
        (0, (0.0, 0.0, -1 / 16), "no positive radius"),
        (0, (math.nan, 0.0, 0.0), "finite"),
        (0, (0.0, 0.0, math.inf), "finite"),
    ],
)
def test_a_packing_that_is_wrong_by_a_rounding_error_has_no_score(
    packing: ExampleTrial, index: int, change: tuple[float, ...], reason: str
) -> None:
    circles = grid()
    circles[index] = [number + delta for number, delta in zip(circles[index], change, strict=True)]
    assert is_refused(pack(packing, program=program_that_prints(circles)), reason)


@pytest.mark.parametrize(
    "circles",
    [
        grid()[:25],
        [*grid(), [0.9, 0.9, 0.01]],
        [*grid()[:25], [0.9, 0.9]],
        [*grid()[:25], [0.9, 0.9, "0.01"]],
        [*grid()[:25], [0.9, 0.9, True]],
    ],
)
def test_anything_but_26_circles_has_no_score(packing: ExampleTrial, circles: Sequence[object]) -> None:
    assert is_refused(pack(packing, program=program_that_prints(circles)), "invalid packing: not a")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("print('{\"score\": 2.7}')", "invalid packing"),
        ("print(2.7, 2.7)", "no JSON"),
        ("raise SystemExit('not today')", "program.py failed: not today"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_program_cannot_claim_a_score(packing: ExampleTrial, program: str, reason: str) -> None:
    assert is_refused(pack(packing, program=program), reason)


def test_a_program_that_hangs_has_no_score(packing: ExampleTrial) -> None:
    packing.edit("evaluate.py", "TIMEOUT_SECONDS = 20", "TIMEOUT_SECONDS = 0.5")
    assert is_refused(pack(packing, program="while True: pass"), "took more than 0.5 s")


def test_radii_that_are_too_large_are_refused(packing: ExampleTrial) -> None:
    packing.edit("program.py", "radius * (1 - 1e-12)", "radius * (1 + 1e-12)")
    assert is_refused(pack(packing), "invalid packing")


def settings(trial: ExampleTrial, **changed: object) -> None:
    """Change settings of the program, each in the file that has it."""
    for file in ("solver.py", "moves.py"):
        text = (trial.tree / file).read_text()
        for name, value in changed.items():
            text = re.sub(rf'(?<="{name}": )\w+', str(value), text)
        (trial.tree / file).write_text(text)


def test_each_choice_of_the_way_to_a_good_packing_gains(packing: ExampleTrial) -> None:
    scores = [json.loads(pack(packing).stdout)["score"]]
    for changed in ({"formula": True}, {"near": True}, {"momentum": True}, {"fresh": False}):
        settings(packing, **changed)
        scores.append(json.loads(pack(packing).stdout)["score"])
    assert scores == sorted(scores)
    assert scores[0] < 1.8
    assert scores[-1] > 2.62


def test_a_search_without_passes_and_moves_ends(packing: ExampleTrial) -> None:
    settings(packing, formula=True, passes=-1, moved=-3, fresh=False)
    assert json.loads(pack(packing).stdout)["score"] > 0


TILED = {
    "block_rows": 16,
    "block_columns": 64,
    "block_depth": 32,
    "unroll": 4,
    "optimise": "-O3",
    "native": True,
}

needs_a_compiler = needs("cc")


@needs_a_compiler
@pytest.mark.parametrize("params", [{}, TILED], ids=["defaults", "tiled"])
def test_a_kernel_is_scored_in_milliseconds(kernel: ExampleTrial, params: object) -> None:
    process = kernel.run("evaluate.py", params=params)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert kernel.score() > 0.1


@needs_a_compiler
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("sum += a", "sum -= a", "wrong product"),
        ("k < depth + UNROLL", "k < depth + UNROLL - (row == 5 && column == 7 && depth == 0)", "wrong product"),
        ("c[i] = 0", "c[i] = 0.0f / 0.0f", "wrong product"),
        ("float sum = c", "flaot sum = c", "does not compile: kernel.c"),
        ("c[i] = 0", "*(volatile int *)0 = 0", "the kernel crashed"),
    ],
)
def test_a_kernel_that_computes_wrong_numbers_has_no_score(
    kernel: ExampleTrial, old: str, new: str, reason: str
) -> None:
    kernel.edit("kernel.c", old, new)
    process = kernel.run("evaluate.py")
    assert is_refused(process, reason)
    assert not kernel.result.exists()


@needs_a_compiler
def test_a_kernel_that_remembers_its_first_product_has_no_score(kernel: ExampleTrial) -> None:
    kernel.edit("kernel.c", "    // EVOLVE-BLOCK-START", "    static int calls;\n    if (calls++) return;")
    kernel.edit("kernel.c", "    // EVOLVE-BLOCK-END", "")
    assert is_refused(kernel.run("evaluate.py"), "wrong product in repeat 1")


def curve(trial: ExampleTrial) -> list[dict[str, str]]:
    with trial.metrics.open() as file:
        return list(csv.DictReader(file))


ADAM = {"learning_rate": 0.03, "optimizer": "adam", "hidden": 4, "batch": 64}


def test_training_reports_each_epoch_and_ends_with_its_loss(training: ExampleTrial) -> None:
    process = training.run("train.py", params=ADAM)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    rows = curve(training)
    assert list(rows[0]) == ["iteration", "val loss (lower is better)", "accuracy"]
    assert [row["iteration"] for row in rows] == [str(epoch) for epoch in range(1, 41)]
    losses = [float(row["val loss (lower is better)"]) for row in rows]
    assert losses[-1] < losses[0]
    assert training.score() == losses[-1]


def test_training_gives_the_same_curve_for_the_same_seed(tmp_path: Path) -> None:
    trials = [copy_example("training", tmp_path / name) for name in ("one", "other")]
    for trial in trials:
        trial.run("train.py", params=ADAM)
    assert curve(trials[0]) == curve(trials[1])


def test_training_stops_on_request(training: ExampleTrial) -> None:
    training.stop.touch()
    process = training.run("train.py", params={"optimizer": "sgd", "momentum": 0.9})
    assert process.returncode == 0
    assert len(curve(training)) == 1


def test_the_library_of_the_example_answers_as_the_benchmark_expects() -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "faster_tomlkit/work.py"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert load(EXAMPLES / "faster_tomlkit").benchmark.command == "python3 bench.py"
