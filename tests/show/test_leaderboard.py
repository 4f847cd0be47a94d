"""The best trials of a run."""

from __future__ import annotations

from loopty.domain.objective import WEIGHTED_SUM, Direction, Metric
from loopty.domain.trial import Pool
from loopty.show.best import LeaderboardRow, leaderboard, leaderboard_text
from loopty.show.run_status import status

from .story import TREE, Story

LOSS = Metric("score", Direction.MIN, tolerance=0.001)


def study(*scores: float, metrics: tuple[Metric, ...] = (), **accuracy: float) -> Story:
    """A run whose trials only set a parameter."""
    story = Story(Direction.MIN, baseline=1.0, metrics=metrics, params={"x": 0})
    for number, score in enumerate(scores, start=1):
        pool = Pool.CONTROL if number == 3 else Pool.ATTEMPT
        node = story.adds("1", pool, params={"x": number}, tree=TREE)
        story.ends(node, score, **{name: value * number for name, value in accuracy.items()})
    return story


def scores(rows: list[LeaderboardRow]) -> list[float]:
    return [row.score for row in rows]


def test_every_trial_that_only_set_parameters_is_listed_by_its_score() -> None:
    rows = leaderboard(study(0.191, 0.5, 0.8, 0.319, 0.407, 0.761).history, 1, top=5)
    assert scores(rows) == [0.191, 0.319, 0.407, 0.5, 0.761]
    assert [row.rank for row in rows] == [1, 2, 3, 4, 5]
    assert not any(row.why_behind for row in rows)


def test_an_edit_that_was_not_kept_is_not_listed() -> None:
    story = Story(baseline=1.0, params={"x": 0})
    story.tries("1", 3.0)
    story.tries("1", 2.0)
    assert scores(leaderboard(story.history, 1, top=5)) == [3.0, 1.0]


def test_a_tolerance_that_decided_is_named() -> None:
    story = study(0.05246, 0.05219, 0.4, metrics=(LOSS,))
    rows = leaderboard(story.history, 1, top=3)
    assert scores(rows) == [0.05246, 0.05219, 0.4]
    text = leaderboard_text(rows, "val loss", columns=200)
    assert text.splitlines()[-1] == (
        "@3 has a better val loss, but within the tolerance of 0.001 in score: the older one stays"
    )


def test_the_metric_that_decided_within_the_tolerance_is_named() -> None:
    accuracy = Metric("accuracy", Direction.MIN)
    story = Story(Direction.MIN, baseline=None, metrics=(LOSS, accuracy), params={"x": 0})
    story.ends(story.history.runs[1].root, 1.0, accuracy=9.0)
    for number, (loss, other) in enumerate([(0.05246, 1.0), (0.05219, 2.0)], start=1):
        story.ends(story.adds("1", params={"x": number}, tree=TREE), loss, accuracy=other)
    assert [row.why_behind for row in leaderboard(story.history, 1, top=2)] == [
        "",
        "within the tolerance of 0.001 in score: accuracy decided",
    ]


def test_with_weights_every_list_shows_the_sum_that_decides() -> None:
    metrics = (Metric("score", Direction.MIN, weight=1.0), Metric("speed", weight=2.0))
    story = Story(Direction.MIN, baseline=None, metrics=metrics, params={"x": 0})
    story.ends(story.history.runs[1].root, 1.0, speed=1.0)
    best = story.ends(story.adds("1", params={"x": 1}, tree=TREE), 5.0, speed=10.0)
    story.ends(story.adds("1", params={"x": 2}, tree=TREE), 0.1, speed=0.0)
    rows = leaderboard(story.history, 1, top=5)
    assert [(row.node.id, row.score) for row in rows] == [(best, 15.0), ("1", 1.0), ("1.2", -0.1)]
    assert rows[0].over_baseline
    assert rows[0].over_baseline.amount == 14.0
    found = status(story.history, story.history.runs[1], story.now, lambda _: True)
    assert found.metric == WEIGHTED_SUM
    assert found.best
    assert (found.best.node, found.best.score) == (best, 15.0)
    assert story.history.score(story.history[best]) == 15.0
