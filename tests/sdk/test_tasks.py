"""Scores of single tasks, in the languages whose SDK has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

PREAMBLE = {
    "python": "from loopty_sdk import Run\nrun = Run()\n",
    "node": 'import { Run } from "loopty-sdk";\nconst run = new Run();\n',
}
ODD_IDS = ["a/b", "a%2Fb", "../up", "a b", "ключ", "x\n", "", "(!)*'~", "long" * 100, "long" * 100 + "er"]


@pytest.fixture(params=["python", "node"])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_score_is_the_mean_of_the_tasks(trial: Any, language: str) -> None:
    log = {
        "python": 'run.log_task("t1", 0.75)\nrun.log_task(2, 0.25)\nrun.finish()\n',
        "node": 'run.logTask("t1", 0.75);\nrun.logTask(2, 0.25);\nrun.finish();\n',
    }[language]
    assert trial.run(language, PREAMBLE[language] + log).returncode == 0
    result = trial.result()
    assert (result["score"], result["tasks"]) == (0.5, {"t1": 0.75, "2": 0.25})
    assert "tasks_meta" not in result


def test_a_trace_is_on_disk_as_soon_as_its_task_ends(trial: Any, language: str) -> None:
    log = {
        "python": 'run.log_task("t1", 1, status="failed", summary="s", failure_reason="r", log=[{"k": 1}],'
        ' direction="min")\nimport os; os._exit(9)\n',
        "node": 'run.logTask("t1", 1, { status: "failed", summary: "s", failureReason: "r", log: [{ k: 1 }],'
        ' direction: "min" });\nprocess.kill(process.pid, "SIGKILL");\n',
    }[language]
    assert trial.run(language, PREAMBLE[language] + log).returncode != 0
    trace = json.loads((trial.traces / "task_t1.json").read_text())
    assert trace.pop("ended_at").endswith("+00:00")
    assert trace == {
        "experiment_id": "1.3",
        "task_id": "t1",
        "score": 1,
        "status": "failed",
        "summary": "s",
        "failure_reason": "r",
        "log": [{"k": 1}],
        "direction": "min",
    }


def test_a_trace_has_only_the_fields_that_were_given(trial: Any, language: str) -> None:
    log = {"python": "run.log_task('t', 0)\n", "node": "run.logTask('t', 0);\n"}[language]
    assert trial.run(language, PREAMBLE[language] + log).returncode == 0
    assert set(json.loads((trial.traces / "task_t.json").read_text())) == {
        "experiment_id",
        "task_id",
        "score",
        "ended_at",
    }


def test_each_task_with_an_odd_id_has_its_own_trace_inside_the_directory(trial: Any, language: str) -> None:
    log = {
        "python": f"for task in {ODD_IDS!r}: run.log_task(task, 1)\n",
        "node": f"for (const task of {json.dumps(ODD_IDS)}) run.logTask(task, 1);\n",
    }[language]
    assert trial.run(language, PREAMBLE[language] + log).returncode == 0
    traces = list(trial.traces.iterdir())
    assert sorted(json.loads(trace.read_text())["task_id"] for trace in traces) == sorted(ODD_IDS)
    assert not list(trial.root.glob("*up*"))
    assert all(trace.name.isascii() and trace.name.startswith("task_") for trace in traces)


def test_a_task_has_one_score(trial: Any, language: str) -> None:
    log = {
        "python": "run.log_task(1, 0.5)\nrun.log_task('1', 0.9)\n",
        "node": "run.logTask(1, 0.5);\nrun.logTask('1', 0.9);\n",
    }[language]
    ended = trial.run(language, PREAMBLE[language] + log)
    assert ended.returncode != 0
    assert "its own id" in ended.stderr


def test_tasks_with_different_directions_need_an_explicit_score(trial: Any, language: str) -> None:
    log = {
        "python": "run.log_task('quality', 0.9)\nrun.log_task('ms', 12, direction='min')\n",
        "node": "run.logTask('quality', 0.9);\nrun.logTask('ms', 12, { direction: 'min' });\n",
    }[language]
    ended = trial.run(language, PREAMBLE[language] + log + "run.finish()\n")
    assert ended.returncode != 0
    assert "finish(score)" in ended.stderr
    assert not trial.result_path.exists()
    assert trial.run(language, PREAMBLE[language] + log + "run.finish(0.9)\n").returncode == 0
    assert trial.result()["tasks_meta"] == {"ms": {"direction": "min"}}


def test_a_run_without_any_measurement_has_no_score(trial: Any, language: str) -> None:
    ended = trial.run(language, PREAMBLE[language] + "run.finish()\n")
    assert ended.returncode != 0
    assert "no score" in ended.stderr
    assert not trial.result_path.exists()


def test_an_unknown_direction_is_refused(trial: Any, language: str) -> None:
    log = {
        "python": "run.log_task('t', 1, direction='down')\n",
        "node": "run.logTask('t', 1, { direction: 'down' });\n",
    }[language]
    assert "direction must be" in trial.run(language, PREAMBLE[language] + log).stderr


def test_mode_and_seed_reach_the_benchmark(trial: Any, language: str) -> None:
    show = {
        "python": "print(run.mode, run.seed, run.experiment_id)\n",
        "node": "console.log(run.mode, run.seed, run.experimentId);\n",
    }[language]
    assert trial.run(language, PREAMBLE[language] + show).stdout == "audit 7 1.3\n"
    nothing = {"python": "None", "node": "null"}[language]
    bare = trial.run(language, PREAMBLE[language] + show, bare=True)
    assert bare.stdout == f"attempt {nothing} unknown\n"


def test_a_block_finishes_at_its_end_unless_it_raised(trial: Any, language: str) -> None:
    block = {
        "python": "from loopty_sdk import Run\nwith Run() as run:\n    run.log_task('t', 1)\n    {}\n",
        "node": 'const {{ Run }} = require("loopty-sdk");\n'
        "Run.use(async (run) => {{ run.logTask('t', 1); {} }});\n",
    }[language]
    failing = {"python": "raise SystemExit(3)", "node": "throw new Error('no data');"}[language]
    early = {"python": "run.finish(0.5)", "node": "run.finish(0.5);"}[language]
    assert trial.run(language, block.format(failing)).returncode != 0
    assert not trial.result_path.exists()
    assert trial.run(language, block.format("")).returncode == 0
    assert trial.result()["score"] == 1
    trial.result_path.unlink()
    assert trial.run(language, block.format(early)).returncode == 0
    assert trial.result()["score"] == 0.5
