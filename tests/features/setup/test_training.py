"""Scripts that train: their metric is the aim, never the time that they take."""

import pytest

from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.proven_task import with_better_score, with_direction
from loopty.features.setup.task_proposal import propose_tasks, tasks_to_try
from loopty.features.setup.training import metric_of

from .test_task_proposal import facts_of

TRAIN = "import random\nfrom model import fit\nrandom.seed(1)\nfor epoch in range(3):\n    print('loss', fit())\n"


def first(tmp_path, text, **others):
    facts = facts_of(tmp_path, {"train.py": text, "model.py": "", **others})
    return tasks_to_try(facts, propose_tasks(facts))[0]


def test_a_training_script_is_run_for_its_metric_and_the_seed_is_noted(tmp_path):
    draft = first(tmp_path, TRAIN)
    assert (draft.command, draft.result, draft.write) == ("python3 train.py", "stdout", ("model.py",))
    assert "it sets a seed" in draft.notes["command"]
    assert "it sets no seed" in first(tmp_path, TRAIN.replace("random.seed(1)\n", "")).notes["command"]


@pytest.mark.parametrize(
    ("line", "command", "result"),
    [
        (
            "json.dump(m, open('out/metrics.json', 'w'))\n",
            "rm -f out/metrics.json && python3 train.py >&2 && cat out/metrics.json",
            "stdout",
        ),
        (
            "frame.to_csv('results.csv')\n",
            'rm -f results.csv && python3 train.py && cp results.csv "$LOOPTY_METRICS_CSV"',
            "file",
        ),
    ],
)
def test_the_metrics_that_a_training_writes_are_handed_over(tmp_path, line, command, result):
    draft = first(tmp_path, TRAIN + line)
    assert (draft.command, draft.result, draft.writable_copy) == (command, result, True)


def test_the_import_of_a_training_is_never_measured(tmp_path):
    drafts = propose_tasks(facts_of(tmp_path, {"train.py": TRAIN}))
    assert [draft.command for draft in drafts] == ["python3 train.py"]


def test_a_training_that_another_file_scores_may_be_changed(tmp_path):
    draft = first(tmp_path, "import evaluate\n" + TRAIN, **{"evaluate.py": ""})
    assert draft.write == ("train.py",)
    assert "evaluate.py" in draft.files


@pytest.mark.parametrize(
    ("names", "name", "direction"),
    [
        (["train_acc", "val_loss", "epoch"], "val_loss", "min"),
        (["loss", "accuracy"], "accuracy", "max"),
        (["R²"], "R²", "max"),
        (["rmse", "seconds"], "rmse", "min"),
    ],
)
def test_the_metric_of_unseen_data_is_the_score_in_its_direction(tmp_path, names, name, direction):
    outcome = Outcome(Ending.FINISHED, {"score": 9.5, **dict.fromkeys(names, 0.5)})
    draft = with_direction(with_better_score(first(tmp_path, TRAIN), outcome), outcome)
    assert (draft.score_key, draft.direction) == (name, direction)


def test_a_number_without_a_name_that_is_known_is_no_metric():
    assert metric_of(["epoch", "seconds", "lines"]) == ""
