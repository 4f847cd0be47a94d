"""`loopty init --yes` in the layouts of other tools: no candidate may write what scores it."""

import pytest

from loopty.taskfile.read import load

from .peer_layouts import AIDE, AUTORESEARCH, LAYOUTS, OPENEVOLVE


@pytest.fixture
def peer_place(place):
    def made(layout):
        for path, text in layout.items():
            place.write(path, text)
        place.commit()
        return place

    return made


def test_an_evaluator_of_openevolve_is_called_and_cannot_be_changed(peer_place):
    place = peer_place(OPENEVOLVE)
    text = " ".join(place.loopty("init", "--yes", "--attempts", "4").stderr.split())
    first = "score: combined_score 0.5, higher is better (the name combined_score says so); "
    assert first + "other numbers: nearest, eval_time wrote loopty.toml" in text
    assert "candidates may change initial_program.py" in text
    task = load(place.top)
    assert task.benchmark.command == "python3 -m loopty_sdk.evaluate_program evaluator.py initial_program.py"
    assert (task.access.write, task.objective.direction) == (("initial_program.py",), "max")
    assert "evaluator.py" in task.benchmark.files
    place.loopty("optimize")
    commits = place.held_commits()
    assert len(commits) > 1
    for commit in commits:
        assert place.git("show", f"{commit}:evaluator.py") == OPENEVOLVE["evaluator.py"]


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "openevolve"])
def test_what_loopty_cannot_call_is_refused_with_the_reason_and_nothing_is_written(peer_place, name):
    place = peer_place(LAYOUTS[name])
    done = place.loopty("init", "--yes", code=1)
    scoring = {
        "shinka": "evaluate.py",
        "coral": "eval/grader.py",
        "autoresearch": "prepare.py",
        "gepa": "optimize.py",
    }
    text = " ".join(done.stderr.split())
    assert f"{scoring[name]} may score it" in text if name in scoring else "neither a benchmark nor tests" in text
    assert "loopty init --yes --command" in text
    assert "next: loopty run" not in text
    assert not (place.top / "loopty.toml").exists()


def test_the_number_of_autoresearch_is_found_among_its_lines(peer_place):
    place = peer_place(AUTORESEARCH)
    refused = place.loopty("init", "--yes", "--command", "python3 train.py", code=2).stderr
    assert "train.py is what 'python3 train.py' starts, prepare.py looks like an evaluator" in refused
    done = place.loopty("init", "--yes", "--command", "python3 train.py", "--write", "train.py")
    task = load(place.top)
    assert (task.benchmark.score_key, task.objective.direction) == ("val_bpb", "min")
    text = " ".join(done.stderr.split())
    assert "lower is better (the name val_bpb says so); other numbers: training_seconds, num_steps" in text
    assert "candidates may write train.py, which reports their score" in text


def test_a_named_loss_is_lower_is_better(peer_place):
    place = peer_place(AIDE)
    place.loopty("init", "--yes", "--command", "python3 solution.py", "--write", "solution.py")
    task = load(place.top)
    assert (task.benchmark.score_key, task.objective.direction) == ("validation RMSE", "min")
