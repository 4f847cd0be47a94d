"""Evaluators of other tools, scored as they are, without these tools."""

import json
import subprocess
import sys

import pytest

from ..end_to_end.peer_layouts import CORAL, GEPA_CASES, OPTUNA, SHINKA, STAGES


@pytest.fixture
def score(tmp_path, monkeypatch):
    def run(layout, *words, code=0, module="evaluate_program", **environment):
        for path, text in layout.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        command = [sys.executable, "-m", f"loopty_sdk.{module}", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if code == 0 and done.stdout else done.stderr

    return run


def test_all_stages_of_openevolve_give_one_result_with_artifacts(score):
    result = score(STAGES, "evaluator.py", "initial_program.py", "--stage", "all")
    assert result["score"] == pytest.approx(0.5)
    assert result["metrics"]["quick"] == 1.0
    assert result["artifacts"] == {"hint": "spread them", "raw": "�"}


def test_a_script_of_shinka_writes_its_files_with_a_stand_in(score):
    words = ("evaluate.py", "initial.py", "--as", "shinka")
    result = score(SHINKA, *words)
    assert (result["score"], result["metrics"]) == (pytest.approx(0.4), {"points": 6.0})
    assert (result["artifacts"], result["private"]) == ({"text_feedback": "spread them"}, {"seed": "1"})
    wrong = {"initial.py": SHINKA["initial.py"].replace("place(6)", "place(5)")}
    assert "incorrect: Validation failed: wrong number" in score(wrong, *words, code=1)
    said = score({"initial.py": "def run(): raise SystemExit(3)"}, *words, code=1)
    assert "incorrect: the evaluator wrote no correct.json" in said
    assert "shinka is not installed: loopty stands in" in said


def test_cases_of_gepa_are_scored_one_by_one_and_others_are_held_out(score, tmp_path):
    candidate = {"candidate/intro.txt": "say it", "candidate/end.txt": "bye"}
    words = ("optimize.py", "candidate", "--as", "gepa")
    result = score({**GEPA_CASES, **candidate}, *words, EVO_TRACES_DIR=tmp_path / "traces")
    assert result == {"score": 0.75, "tasks": {"a": 1.0, "b": 0.5}}
    trace = json.loads((tmp_path / "traces/task_b.json").read_text())
    assert trace["summary"] == "wanted ['say', 'twice']"
    assert score({}, *words, LOOPTY_MODE="audit")["tasks"] == {"c": 0.5}
    failing = {"optimize.py": "import gepa\nraise ValueError('no data')\n"}
    assert "optimize.py does not call optimize_anything: ValueError: no data" in score(failing, *words, code=1)


def test_a_grader_of_coral_looks_at_the_folder_of_the_candidate(score):
    words = ("eval/grader.py", "seed", "--as", "coral", "--args", '{"args": {"round": 1}}')
    result = score(CORAL, *words)
    assert (result["score"], result["artifacts"]) == (6.4, {"feedback": "larger is better"})
    failing = CORAL["eval/grader.py"].replace('self.score(round(value, self.args["round"]), ', "self.fail(")
    assert "the grader gave no score: larger is better" in score({"eval/grader.py": failing}, *words, code=1)


def test_an_objective_of_optuna_gets_the_parameters_of_the_trial(score, tmp_path):
    (tmp_path / "params.json").write_text('{"lr": 0.25, "layers": 4, "kind": "b"}')
    given = {"module": "evaluate_objective", "LOOPTY_PARAMS": tmp_path / "params.json"}
    assert score(OPTUNA, "tune.py", **given)["score"] == 2.0
    (tmp_path / "stop").touch()
    curve = tmp_path / "curve.csv"
    score(OPTUNA, "tune.py", **given, LOOPTY_STOP_PATH=tmp_path / "stop", LOOPTY_METRICS_CSV=curve)
    assert curve.read_text().splitlines()[-1] == "0,0.0", "the last reported row is the result"


def test_a_choice_that_has_only_a_text_in_a_task_file_is_found_again(score, tmp_path):
    script = (
        "def objective(trial):\n    return 1 if trial.suggest_categorical('depth', [3, None]) is None else 0\n"
    )
    for text, expected in (('"None"', 1.0), ("3", 0.0)):
        (tmp_path / "params.json").write_text(f'{{"depth": {text}}}')
        given = {"module": "evaluate_objective", "LOOPTY_PARAMS": tmp_path / "params.json"}
        assert score({"tune.py": script}, "tune.py", **given)["score"] == expected


def test_an_empty_program_has_the_score_that_the_task_gives_it(score):
    words = ("evaluator.py", "initial_program.py", "--empty")
    assert score({**STAGES, "initial_program.py": " \n"}, *words, "-1.5") == {"score": -1.5}
    assert "--empty needs a finite number, not 'nan'" in score({}, *words, "nan", code=2)
