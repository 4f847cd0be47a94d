"""Studies as their callers use them: the same loop, ledger and judge behind a function."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import loopty
from loopty.domain.errors import Misuse
from loopty.session.reader import CampaignReader

SPACE = {"x": loopty.Float(0, 1)}


def tune(objective, space=SPACE, trials=10, **how):
    return loopty.optimize(objective, space, trials, progress=False, **how)


def states(study):
    return Counter(trial.state for trial in study.trials)


def test_a_study_without_a_folder_leaves_nothing_behind():
    study = tune(lambda trial: trial.params["x"])
    folder = study.folder
    assert folder.exists()
    del study
    gc.collect()
    assert not folder.exists()


def test_the_same_call_resumes_and_the_command_line_reads_the_folder(tmp_path):
    calls = []

    def objective(trial):
        calls.append(trial.number)
        return -trial.params["x"]

    whole = tune(objective, trials=12, seed=3)
    calls.clear()
    tune(objective, trials=5, seed=3, folder=tmp_path / "study")
    resumed = tune(objective, trials=12, seed=3, folder=tmp_path / "study")
    assert calls == list(range(12))
    assert [trial.params for trial in resumed.trials] == [trial.params for trial in whole.trials]
    assert CampaignReader(tmp_path / "study").status().best.score == resumed.best.score
    assert loopty.open(tmp_path / "study").best == resumed.best


def test_a_changed_objective_cannot_continue_an_old_run(tmp_path, capsys):
    tune(lambda trial: trial.params["x"] + 1, trials=3, folder=tmp_path)
    study = tune(lambda trial: trial.params["x"] + 2, trials=3, folder=tmp_path)
    assert len(study.trials) == 3
    assert "objective.py" in capsys.readouterr().err
    assert max(study.history.runs) == 2


def test_exceptions_are_failed_trials_also_the_first_ones():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        if x > 0.4:
            raise ValueError("too large")
        return x

    study = tune(objective, None, 20)
    assert len(study.trials) == 20
    assert study.trials[0].reason == "ValueError: too large"
    assert study.best.params["x"] <= 0.4
    assert states(study)["failed"] >= 1


@pytest.mark.parametrize("value", [None, float("nan"), "much", {"score": float("inf")}])
def test_a_result_that_is_no_number_is_a_failed_trial(value):
    study = tune(lambda _: value, trials=2)
    assert states(study) == {"failed": 2}
    with pytest.raises(Misuse, match="no result yet; the last trial failed: the objective returned"):
        _ = study.best


def test_exit_in_the_objective_ends_the_trial_alone():
    study = tune(lambda trial: sys.exit(3) if trial.number else 1.0, trials=3)
    assert states(study) == {"complete": 1, "failed": 2}


def test_values_are_asked_for_as_the_objective_runs(tmp_path):
    def objective(trial):
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return trial.suggest_int("depth", 1, 9)
        return 10 * trial.suggest_float("rate", 1e-3, 1, log=True)

    tune(objective, None, 15, folder=tmp_path)
    study = tune(objective, None, 40, folder=tmp_path)
    for trial in study.trials:
        assert set(trial.params) == {"kind", "depth" if trial.params["kind"] == "a" else "rate"}
    assert study.best.score > 7
    assert study.trials[0].params == {"kind": "a", "depth": 5}


def test_two_ranges_for_one_name_in_one_trial_are_refused():
    def objective(trial):
        return trial.suggest_int("n", 1, 9) + trial.suggest_int("n", 1, 5)

    study = tune(objective, None, 2)
    assert "suggested twice" in study.trials[0].reason


def test_trials_behind_the_others_are_pruned_also_after_a_resume(tmp_path):
    def objective(trial):
        for step in range(5):
            trial.report(trial.params["x"], step)
            trial.raise_if_pruned()
        return trial.params["x"]

    tune(objective, trials=12, sampler="random", folder=tmp_path)
    before = states(loopty.open(tmp_path))["pruned"]
    study = tune(objective, trials=24, sampler="random", folder=tmp_path)
    assert 0 < before < states(study)["pruned"]
    assert "median" in next(trial.reason for trial in study.trials if trial.state == "pruned")


def test_processes_call_a_function_that_cannot_be_imported():
    parent = os.getpid()

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        if trial.number in (3, 4):
            os.kill(os.getpid(), signal.SIGKILL if trial.number == 3 else signal.SIGRTMIN + 2)
        if trial.number == 5:
            raise ValueError("\udcff")
        trial.report(x, 0)
        return float(os.getpid() != parent)

    study = tune(objective, None, 8, workers=2)
    assert states(study) == {"complete": 5, "failed": 3}
    for number, words in ((3, "SIGKILL"), (4, "signal of real time"), (5, "cannot be sent")):
        assert words in study.trials[number].reason
    assert study.best.score == 1.0


def test_a_trial_that_takes_too_long_is_ended():
    study = tune(lambda trial: threading.Event().wait() if trial.number else 1.0, trials=2, trial_timeout=0.3)
    assert [trial.reason for trial in study.trials][1] == "no result within 0.3 s"


def test_an_isolated_objective_writes_nowhere_else(tmp_path):
    target = tmp_path / "written"

    def objective(trial):
        target.write_text(str(trial.params))
        return 1.0

    study = tune(objective, trials=1, isolated=True)
    assert "PermissionError" in study.trials[0].reason
    assert not target.exists()


def test_an_isolated_objective_cannot_reach_its_parent_or_the_ledger(tmp_path):
    escaped, folder = tmp_path / "escaped", tmp_path / "study"

    class Command:
        def __reduce__(self):
            return os.system, (f"touch {escaped}",)

    def objective(trial):
        if trial.number == 0:
            opened = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
            mapped = Path("/proc/self/maps").read_text()
            return float(any(str(folder) in text for text in [*opened, mapped]))
        sent = b"\0" if trial.number == 1 else b"\0\0\0\2hi"
        for pipe in [each for each in gc.get_objects() if isinstance(each, Connection) and not each.closed]:
            with contextlib.suppress(OSError):
                pipe.send(Command()) if trial.number == 3 else os.write(pipe.fileno(), sent)
        if trial.number == 1:
            threading.Event().wait()
        return 9.0

    study = tune(objective, trials=4, isolated=True, trial_timeout=1, folder=folder)
    assert study.best.score == 0
    assert study.trials[1].reason == "no result within 1 s"
    assert study.trials[2].reason == "its process sent what is no result"
    assert study.trials[3].state == "failed"
    assert not escaped.exists()


def test_ctrl_c_ends_the_call_and_the_results_stay(tmp_path):
    def objective(trial):
        if trial.number == 2:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(5)
        return trial.params["x"]

    study = tune(objective, trials=9, folder=tmp_path)
    assert (study.finish.reason, study.finish.resumable) == ("stopped on request", True)
    assert states(study) == {"complete": 2, "waiting": 1}


def test_time_and_target_end_a_call():
    slow = tune(lambda _: threading.Event().wait(0.1) or 1.0, trials=None, timeout=0.5)
    assert "time limit" in slow.finish.reason
    assert 1 < len(slow.trials) < 8
    started = time.monotonic()
    failed = tune(lambda _: threading.Event().wait(0.2) and None, trials=9, timeout=0.3)
    assert len(failed.trials) == 2
    assert time.monotonic() - started < 9 * 0.2
    good = tune(lambda trial: trial.params["x"], trials=50, target=0.9)
    assert len(good.trials) < 50


def test_asked_trials_may_be_told_in_any_order(tmp_path):
    with loopty.create(SPACE, folder=tmp_path) as study:
        study.tell(study.ask(), 0.5)
        first, second = study.ask(), study.ask()
        assert first.params != second.params
        study.tell(second, metrics={"score": 0.7, "size": 3})
        study.tell(first, pruned="late")
        waiting = study.ask()
        with pytest.raises(Misuse, match="told before"):
            study.tell(first, 1.0)
    assert states(study) == {"complete": 2, "pruned": 1, "waiting": 1}
    assert study.best.metrics == {"score": 0.7, "size": 3}
    assert loopty.create(SPACE, folder=tmp_path).ask().params == waiting.params


def test_asking_ends_with_the_budget():
    study = loopty.create({"x": [1, 2]})
    study.tell(study.ask(trials=2), 1.0)
    study.tell(study.ask(), 2.0)
    with pytest.raises(loopty.StudyOver, match="spent"):
        study.ask()


def test_a_trial_that_depends_on_another_is_refused_and_a_failed_first_one_begins_anew(monkeypatch):
    monkeypatch.setattr("loopty.study.study._IDLE_SECONDS", 0.2)
    study = loopty.create(SPACE)
    with pytest.raises(Misuse, match="no trial yet"):
        _ = study.history
    first = study.ask(trials=4)
    with pytest.raises(Misuse, match="depends on @1: tell that one first"):
        study.ask()
    study.tell(first, failed="out of memory")
    again = study.ask()
    assert again.params != first.params
    study.tell(again, 1.0)
    others = [study.ask(), study.ask()]
    with pytest.raises(Misuse, match="tell that one first"):  # the budget may hold no more: they decide
        study.ask()
    for trial in others:
        study.tell(trial, 2.0)
    with pytest.raises(loopty.StudyOver):
        study.ask()
    assert states(study) == {"complete": 3, "failed": 1}


def test_a_forked_process_leaves_the_study_alone():
    study = loopty.create(SPACE)
    study.tell(study.ask(), 1.0)
    if (child := os.fork()) == 0:
        study._clean_up()
        os._exit(0)
    os.waitpid(child, 0)
    assert study.folder.exists()
    study.tell(study.ask(), 2.0)


async def test_a_running_event_loop_is_no_obstacle():
    thread = threading.current_thread()
    study = tune(lambda _: float(threading.current_thread() is thread), trials=2)
    assert study.best.score == 1.0
    trial = await study.ask_async(5)
    await study.tell_async(trial, 3.0)
    assert study.best.score == 3.0
    with pytest.raises(Misuse, match="close_async"):
        study.close()
    await study.close_async()


def test_an_async_objective_is_awaited():
    async def objective(trial):
        await asyncio.sleep(0)
        return trial.params["x"]

    assert states(tune(objective, trials=3)) == {"complete": 3}

    async def leave(_):
        sys.exit(3)

    assert tune(leave, trials=1).trials[0].reason == "SystemExit: 3"


def test_a_program_evolves_and_others_names_of_the_score_count(tmp_path):
    def evaluate(path):
        scope = {}
        exec(path.read_text(), scope)
        return {"combined_score": -abs(scope["solve"]() - 7), "size": len(path.read_text())}

    how = {"budget": "6 attempts", "folder": tmp_path / "evolved", "progress": False, "seed": 3}
    study = loopty.evolve("def solve():\n    return 3\n", evaluate, **how)
    assert study.trials[0].metrics["combined_score"] == -4
    assert len(study.trials) == 7
    assert study.best.score >= -4
    best = CampaignReader(tmp_path / "evolved").diff(study.best.name, baseline=True)
    assert study.best.score == -4 or "+    return" in best.patch
    assert len(loopty.evolve("def solve():\n    return 3\n", evaluate, **how).trials) == 7
    with pytest.raises(Misuse, match="evolves another program"):
        loopty.evolve("def solve():\n    return 4\n", evaluate, **how)
    with pytest.raises(Misuse, match="study of something else"):
        tune(lambda _: 1.0, folder=how["folder"])


def test_a_program_that_never_ends_is_said_at_once():
    study = loopty.evolve("while True: pass\n", lambda p: exec(p.read_text()), trial_timeout=0.3, progress=False)
    assert [trial.reason for trial in study.trials] == ["no result within 0.3 s"]
    assert "baseline" in study.finish.reason


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"sampler": "best"}, "random"),
        ({"direction": "up"}, "maximize"),
        ({"pruner": "none of them"}, "median"),
        ({"trials": 0}, "at least 1"),
        ({"workers": 0}, "at least 1"),
        ({"space": None, "sampler": "grid"}, "space="),
        ({"space": {"x": loopty.Float(0, 1, when={"y": 1}), "y": loopty.Int(0, 1, when={"x": 1})}}, "circle"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_remedy(how, words):
    with pytest.raises(Misuse, match=words):
        loopty.optimize(lambda _: 1.0, **{"space": SPACE, "progress": False, **how})


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(Misuse, match="other files"):
        tune(lambda _: 1.0, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_killed_study_goes_on_where_it_was(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import loopty, os, signal\n"
        "def objective(trial):\n"
        "    if trial.number == 4 and not os.path.exists('killed'):\n"
        "        open('killed', 'w').close(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return trial.suggest_float('x', 0, 1)\n"
        "study = loopty.optimize(objective, trials=6, folder='study')\n"
        "print(len(study.trials), [trial.state for trial in study.trials].count('complete'))\n"
    )
    run = [sys.executable, str(script)]
    assert subprocess.run(run, cwd=tmp_path, capture_output=True).returncode == -signal.SIGKILL
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("6 6", "")


def test_charts_stand_alone_and_name_what_is_missing():
    study = tune(
        lambda trial: trial.params["x"], {**SPACE, "k": ["a", "b"], "n": loopty.Int(1, 1000, log=True)}, 25
    )
    plots = study.plot
    for picture in (plots.history(), plots.importance(), plots.slice(), plots.contour("x", "k"), plots.parallel()):
        assert picture.svg.startswith('<svg class="loopty" xmlns=')
        assert picture.svg.rstrip().endswith("</svg>")
        assert "nan" not in picture.svg
    assert "<table>" in study._repr_html_()
    with pytest.raises(Misuse, match="no trial has a parameter 'z'"):
        plots.slice("z")


def test_a_repository_of_the_users_is_asked_and_told(tmp_path):
    (tmp_path / "speed.txt").write_text("value = 5\n")
    (tmp_path / "link").symlink_to("speed.txt")
    (tmp_path / "loopty.toml").write_text(
        'statement = "Larger"\n[benchmark]\ncommand = "false"\ntimeout_seconds = 9\n'
        '[access]\nwrite = ["speed.txt"]\n[pools]\nattempts = 3\n[proposer]\nkind = "mutate"\n'
        '[noise]\nrepeat = "never"\nconfirm = 0\n'
    )
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "objective.py").write_text("# mine\n")
    task = (tmp_path / "loopty.toml").read_text()
    with pytest.raises(Misuse, match="other files"):
        tune(lambda _: 1.0, folder=tmp_path)
    with loopty.open(tmp_path) as study:
        for number in range(3):
            trial = study.ask()
            assert ((trial.folder / "speed.txt").read_text() == "value = 5\n") == (number == 0)
            study.tell(trial, float(number))
    assert [trial.score for trial in loopty.open(tmp_path).trials] == [0.0, 1.0, 2.0]
    assert (tmp_path / "loopty.toml").read_text() == task
    assert (tmp_path / "objective.py").read_text() == "# mine\n"


def test_a_budget_with_another_name_is_refused():
    with pytest.raises(Misuse, match="budget has no 'trials': it has attempts"):
        loopty.create(SPACE).optimize(lambda _: 1.0, budget={"trials": 3})
