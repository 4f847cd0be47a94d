"""`loopty init --yes` in the layouts of other tools: no candidate may write what scores it."""

import pytest

from loopty.taskfile.read import load

from .peer_layouts import AIDE, AUTORESEARCH, CORAL, GEPA, OPENEVOLVE


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
    first = "score: combined_score 0.5, higher is better (OpenEvolve maximises its score); "
    assert first + "other numbers: nearest, eval_time wrote loopty.toml" in text
    assert "candidates may change initial_program.py" in text
    task = load(place.top)
    line = "python3 -m loopty_sdk.evaluate_program evaluator.py initial_program.py --isolated run"
    assert (task.benchmark.command, task.benchmark.isolated) == (line, True)
    assert (task.access.write, task.objective.direction) == (("initial_program.py",), "max")
    assert "evaluator.py" in task.benchmark.files
    place.loopty("optimize")
    commits = place.held_commits()
    assert len(commits) > 1
    for commit in commits:
        assert place.git("show", f"{commit}:evaluator.py") == OPENEVOLVE["evaluator.py"]


def test_the_task_of_another_tool_is_said_measured_and_runs(peer_place):
    place = peer_place(CORAL)
    text = " ".join(place.loopty("init", "--yes", "--unproven", "--attempts", "2").stderr.split())
    assert text.startswith("recognised CORAL: eval/grader.py looks at seed/")
    assert "score 6.43," in text
    assert place.json("optimize", "--quiet")["sound"]


def test_a_seed_that_is_computed_is_refused_with_the_remedy_and_nothing_is_written(peer_place):
    script = GEPA["optimize.py"].replace('open("candidate.txt").read()', "make_seed()")
    place = peer_place({"optimize.py": script})
    done = place.loopty("init", "--yes", code=2)
    assert "the seed of optimize.py is computed: write it to a file" in done.stderr
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
