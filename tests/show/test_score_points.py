"""Every judged node as one point, and the best of them."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.trial import Ending, Pool
from loopty.show.best import leaderboard
from loopty.show.node import detail
from loopty.show.rated_nodes import Mark, points

from .story import Story


def test_points_of_all_pools_come_in_the_order_of_the_experiments() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 0.5, Pool.CONTROL)
    story.tries("1", 2.0)
    story.tries("1", None)
    story.starts(story.adds("1"))
    found = points(story.history, 1)
    assert [(point.order, point.node, point.mark, point.score) for point in found.items] == [
        (1, "1", Mark.KEPT, 1.0),
        (2, "1.1", Mark.DISCARDED, 0.5),
        (3, "1.2", Mark.KEPT, 2.0),
        (4, "1.3", Mark.FAILED, None),
    ]
    assert (found.metric, found.direction) == ("score", Direction.MAX)


def test_a_run_without_results_has_no_points() -> None:
    assert points(Story(baseline=None).history, 1).items == ()


def test_the_leaderboard_is_in_the_order_of_the_objective() -> None:
    story = Story(Direction.MIN, baseline=2.0)
    for score in (3.0, None, 1.5, 1.0, 1.2):
        story.tries("1", score)
    story.tries("1", 1.8, Pool.CONTROL)
    rows = leaderboard(story.history, 1, top=4)
    assert [(row.rank, row.node.id) for row in rows] == [(1, "1.4"), (2, "1.3"), (3, "1.6"), (4, "1")]
    assert rows[0].over_baseline is not None
    assert rows[0].over_baseline.percent == 50.0
    assert rows[3].over_baseline is None


def test_a_pruned_node_is_not_a_failed_one() -> None:
    story = Story()
    story.tries("1", None, ending=Ending.PRUNED)
    story.tries("1", None)
    assert [point.mark for point in points(story.history, 1).items] == [Mark.KEPT, Mark.PRUNED, Mark.FAILED]


def test_without_a_baseline_there_is_no_leaderboard() -> None:
    assert leaderboard(Story(baseline=None).history, 1, top=4) == []


def test_the_metrics_of_a_node_come_with_the_baselines() -> None:
    story = Story(baseline=None)
    story.ends(NodeId("1"), 1.0, memory=10.0)
    story.tries("1", 2.0, memory=12.0, extra=5.0)
    found = detail(story.history, NodeId("1.1"))
    assert [(metric.name, metric.value, metric.baseline) for metric in found.metrics] == [
        ("score", 2.0, 1.0),
        ("memory", 12.0, 10.0),
        ("extra", 5.0, None),
    ]
    assert [metric.over_baseline is not None for metric in found.metrics] == [True, False, False]
    assert found.is_best


def test_changed_parameters_come_with_their_old_values() -> None:
    story = Story()
    story.adds("1", params={"rate": 0.1, "depth": 3})
    story.adds("1.1", params={"rate": 0.2, "depth": 3, "width": 8})
    assert detail(story.history, NodeId("1.1.1")).changed_params == {"rate": 0.1, "width": None}
