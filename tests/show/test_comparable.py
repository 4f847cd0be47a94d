"""Every view compares under one fingerprint, never under two."""

from __future__ import annotations

import itertools

from loopty.domain.ids import NodeId
from loopty.domain.task import Noise
from loopty.domain.trial import Pool
from loopty.show.best import leaderboard, other_cohorts
from loopty.show.comparisons import machine_description
from loopty.show.node import detail
from loopty.show.rated_nodes import Mark, points
from loopty.show.run_status import RunStatus, status
from loopty.show.tree_rows import TreeRow, tree

from .story import Story

TOP = NodeId("1")


def run_on_two_machines() -> Story:
    """1.1 wins on the laptop, 1.2 ran on the server too early; then the run moves there, and 1.1.1 wins."""
    story = Story(baseline=1.0, machine="laptop")
    story.sees("laptop", cpu="slow", cores="4")
    story.sees("server", cpu="fast", cores="4")
    story.tries("1", 2.0)
    story.machine = "server"
    story.tries("1", 45.0)
    story.moves("server", {"1": 50.0, "1.1": 60.0}, incumbent="1.1")
    story.tries("1.1", 70.0)
    story.tries("1.1", 65.0)
    return story


def status_of(story: Story) -> RunStatus:
    history = story.history
    return status(history, history.runs[1], story.now, lambda _: True)


def test_the_leaderboard_ranks_only_results_of_the_present_machine() -> None:
    rows = leaderboard(run_on_two_machines().history, 1, top=9)
    assert [(row.node.id, row.score) for row in rows] == [("1.1.1", 70.0), ("1.1", 60.0), ("1", 50.0)]
    assert rows[0].over_baseline is not None
    assert rows[0].over_baseline.percent == 40.0


def test_another_machine_has_its_own_leaderboard() -> None:
    (other,) = other_cohorts(run_on_two_machines().history, 1, top=9)
    assert (other.fingerprint, other.machine) == ("laptop", "cpu slow")
    assert [(row.node.id, row.score) for row in other.places] == [("1.1", 2.0), ("1", 1.0)]
    assert other.places[0].over_baseline is not None
    assert other.places[0].over_baseline.percent == 100.0


def test_a_machine_without_a_baseline_has_no_gains() -> None:
    story = Story(baseline=1.0, machine="laptop")
    story.machine = "server"
    story.tries("1", 99.0)
    assert [row.node.id for row in leaderboard(story.history, 1, top=9)] == ["1"]
    (other,) = other_cohorts(story.history, 1, top=9)
    assert [(row.node.id, row.over_baseline) for row in other.places] == [("1.1", None)]
    assert other.machine == "fingerprint server"


def test_a_single_machine_has_no_other_fingerprints() -> None:
    story = Story()
    story.tries("1", 2.0)
    assert other_cohorts(story.history, 1, top=9) == []
    assert status_of(story).other_fingerprints == ()
    assert points(story.history, 1).under_other_fingerprints == 0


def test_the_status_compares_under_the_present_fingerprint() -> None:
    found = status_of(run_on_two_machines())
    assert found.baseline is not None
    assert found.best is not None
    assert found.best.over_baseline is not None
    assert (found.baseline.score, found.best.node, found.best.score) == (50.0, "1.1.1", 70.0)
    assert found.best.over_baseline.percent == 40.0
    (other,) = found.other_fingerprints
    assert other.best.over_baseline is not None
    assert (other.machine, other.best.node, other.best.over_baseline.percent) == ("cpu slow", "1.1", 100.0)


def test_points_of_other_machines_are_counted_but_not_drawn() -> None:
    story = run_on_two_machines()
    story.machine = "laptop"
    story.tries("1", 3.0)
    found = points(story.history, 1)
    assert [(point.node, point.mark, point.score) for point in found.items] == [
        ("1", Mark.KEPT, 50.0),
        ("1.1", Mark.KEPT, 60.0),
        ("1.2", Mark.INCONCLUSIVE, 45.0),
        ("1.1.1", Mark.KEPT, 70.0),
        ("1.1.2", Mark.DISCARDED, 65.0),
    ]
    assert found.under_other_fingerprints == 1


def test_a_winner_that_loses_to_the_baseline_on_the_new_machine_is_not_kept_there() -> None:
    story = Story(baseline=1.0, machine="laptop")
    story.tries("1", 2.0)
    story.moves("server", {"1": 50.0, "1.1": 40.0}, incumbent="1")
    found = points(story.history, 1)
    assert [(point.node, point.mark) for point in found.items] == [("1", Mark.KEPT), ("1.1", Mark.DISCARDED)]
    best = status_of(story).best
    assert best is not None
    assert best.node == "1"


def test_the_tree_has_no_scores_of_other_machines() -> None:
    story = run_on_two_machines()
    story.machine = "laptop"
    story.tries("1", 3.0)
    rows = {row.node.id: row for row in tree(story.history, TOP) if isinstance(row, TreeRow)}
    assert (rows[TOP].score, rows[TOP].other_score) == (50.0, None)
    other = rows[NodeId("1.3")]
    assert (other.score, other.other_score) == (None, 3.0)
    assert [row.node.id for row in rows.values() if row.is_best] == ["1.1.1"]


def test_a_metric_is_compared_only_with_a_baseline_of_its_own_machine() -> None:
    story = run_on_two_machines()
    assert [metric.baseline for metric in detail(story.history, NodeId("1.1")).metrics] == [1.0]
    assert [metric.baseline for metric in detail(story.history, NodeId("1.1.1")).metrics] == [50.0]
    story.machine = "phone"
    story.tries("1", 3.0)
    found = detail(story.history, NodeId("1.3"))
    assert [(metric.baseline, metric.over_baseline) for metric in found.metrics] == [(None, None)]


def test_a_node_shows_where_it_was_measured() -> None:
    found = detail(run_on_two_machines().history, NodeId("1.1"))
    assert found.other_machine == "cpu slow"
    (other,) = found.other_results
    assert (other.machine, other.score, other.measurements) == ("the present machine", 60.0, 1)
    assert detail(run_on_two_machines().history, NodeId("1.1.1")).other_machine == ""


def test_a_fact_known_about_only_one_machine_is_a_difference() -> None:
    story = Story(machine="here")
    story.sees("here", gpu="one")
    story.sees("there")
    assert machine_description(story.history.runs[1], "there") == "gpu unknown"


def test_a_lucky_measurement_that_was_not_kept_is_not_listed() -> None:
    wobble = itertools.cycle([0.01, -0.01, 0.02, -0.02, 0.0])
    story = Story(baseline=1.0, again=lambda node: 1.0 + (node == "1.1") + next(wobble))
    story.tries("1", 2.0)
    story.noise = Noise(pairs=1)
    story.tries("1", 9.0, Pool.CONTROL)
    rows = leaderboard(story.history, 1, top=9)
    assert [row.node.id for row in rows] == ["1.1", "1"]
    assert rows[0].noise > 0


def test_what_only_equals_a_kept_node_is_not_listed() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 2.0)
    story.tries("1", 2.0)
    story.tries("1", 1.5)
    assert [row.node.id for row in leaderboard(story.history, 1, top=9)] == ["1.1", "1"]
