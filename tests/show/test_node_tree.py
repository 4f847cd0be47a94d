"""The tree of a run as rows."""

from __future__ import annotations

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.record.history import History
from loopty.record.trials import Cohorts
from loopty.show.comparisons import over_parent
from loopty.show.tree_rows import HiddenControls, TreeLine, TreeRow, param_changes, tree

from .story import Story, random_story

TOP = NodeId("1")


def ids(rows: list[TreeLine]) -> list[str]:
    return [row.node.id for row in rows if isinstance(row, TreeRow)]


def hidden_count(rows: list[TreeLine]) -> int:
    return sum(row.hidden_below if isinstance(row, TreeRow) else row.count for row in rows)


@pytest.fixture(scope="module")
def chain() -> History:
    """Three thousand changes, each on top of the one before."""
    story, node = Story(), TOP
    for _ in range(2999):
        node = story.adds(node)
    return story.history


def test_children_are_listed_under_their_parent_by_number() -> None:
    story = Story()
    for _ in range(11):
        story.tries("1", 0.5)
    story.tries("1.2", 0.5)
    rows = list(tree(story.history, TOP, limit=None))
    assert ids(rows) == ["1", "1.1", "1.2", "1.2.1", *(f"1.{number}" for number in range(3, 12))]
    shown = [row for row in rows if isinstance(row, TreeRow)]
    assert [row.level for row in shown] == [0, 1, 1, 2, *[1] * 9]
    assert [row.node.id for row in shown if row.is_last] == ["1", "1.2.1", "1.11"]


def test_the_path_to_the_best_is_marked() -> None:
    story = Story()
    story.tries("1", 2.0)
    story.tries("1.1", 3.0)
    story.tries("1", 2.5)
    rows = [row for row in tree(story.history, TOP) if isinstance(row, TreeRow)]
    assert [row.node.id for row in rows if row.on_path] == ["1", "1.1", "1.1.1"]
    assert [row.node.id for row in rows if row.is_best] == ["1.1.1"]


def test_a_limited_tree_shows_the_best_the_kept_the_running_and_the_newest() -> None:
    story = Story()
    story.tries("1", 1.5)
    story.tries("1", 2.0)
    for _ in range(50):
        story.tries("1", 0.5)
    story.starts(story.adds("1"))
    for _ in range(50):
        story.tries("1", 0.5)
    rows = list(tree(story.history, TOP, limit=6))
    assert ids(rows) == ["1", "1.1", "1.53", "1.102", "1.103", "1.2"]
    assert hidden_count(rows) == rows[0].hidden_below == 98


@pytest.mark.parametrize("limit", [1, 7, 40, 1000])
def test_every_node_is_shown_or_counted(limit: int) -> None:
    history = random_story(seed=1, attempts=80, control=20).history
    rows = list(tree(history, TOP, limit))
    assert len(ids(rows)) <= limit
    assert len(ids(rows)) + hidden_count(rows) == 101


def test_nodes_hidden_below_a_leaf_are_counted_on_its_row() -> None:
    story = Story()
    story.tries("1", 2.0)
    story.tries("1.1", 0.5)
    story.tries("1.1", 0.5)
    (root, best) = tree(story.history, TOP, limit=2)
    assert isinstance(root, TreeRow)
    assert isinstance(best, TreeRow)
    assert (root.hidden_below, best.hidden_below) == (0, 2)


def test_a_subtree_is_shown_from_its_top() -> None:
    story = Story()
    story.tries("1", 0.5)
    story.tries("1.1", 0.5)
    story.tries("1", 0.5)
    assert ids(list(tree(story.history, NodeId("1.1")))) == ["1.1", "1.1.1"]


def test_an_unknown_top_is_misuse() -> None:
    with pytest.raises(Misuse, match=r"no node 1\.9"):
        tree(Story().history, NodeId("1.9"))


def test_a_chain_of_three_thousand_nodes_is_walked(chain: History) -> None:
    rows = list(tree(chain, TOP, limit=None))
    assert len(rows) == 3000
    assert [row.level for row in rows if isinstance(row, TreeRow)] == list(range(3000))


def test_a_limited_chain_shows_its_end(chain: History) -> None:
    rows = list(tree(chain, TOP, limit=10))
    assert ids(rows)[0] == "1"
    assert NodeId(ids(rows)[-1]).depth == 2999
    assert hidden_count(rows) == 2990
    assert isinstance(rows[1], TreeRow)
    assert rows[1].skips_nodes


def test_only_shown_nodes_are_decoded() -> None:
    story = Story()
    for _ in range(2000):
        story.adds("1")
    history, read = story.history_and_reads()
    rows = list(tree(history, TOP, limit=20))
    assert set(ids(rows)) == set(read)
    assert len(rows) == 20


def test_a_row_says_what_the_whole_node_says() -> None:
    history = random_story(3, attempts=30, control=10).history
    fingerprint = Cohorts.of(history.runs[1]).fingerprint
    for limit in (None, 15):
        rows = [row for row in tree(history, TOP, limit) if isinstance(row, TreeRow)]
        assert len(rows) == (limit or history.count)
        for row in rows:
            node = history[row.node.id]
            parent = history[node.id.parent] if node.id.parent else None
            assert row.over_parent == over_parent(history, node, fingerprint)
            assert row.score == history.score(node)
            assert row.changed_params == param_changes(node, parent)
            names = (
                "handle",
                "pool",
                "verdict",
                "ending",
                "summary",
                "operator",
                "draft",
                "running",
                "is_pending",
            )
            assert [getattr(row.node, name) for name in names] == [getattr(node, name) for name in names]


def test_the_best_control_node_is_among_the_kept() -> None:
    story = Story()
    story.tries("1", 2.0, Pool.CONTROL)
    for _ in range(30):
        story.tries("1", 0.5)
    assert ids(list(tree(story.history, TOP, limit=3)))[:2] == ["1", "1.1"]


def test_the_path_to_the_best_is_the_trunk() -> None:
    story = Story()
    story.tries("1", 2.0)
    story.tries("1", 0.5)
    story.tries("1.1", 0.5)
    story.tries("1.1", 3.0)
    story.tries("1.1.2", 0.5)
    rows = [row for row in tree(story.history, TOP) if isinstance(row, TreeRow)]
    assert [(row.node.id, row.level) for row in rows] == [
        ("1", 0),
        ("1.2", 1),
        ("1.1", 0),
        ("1.1.1", 1),
        ("1.1.2", 0),
        ("1.1.2.1", 1),
    ]
    assert [row.node.id for row in rows if row.level and not row.is_last] == ["1.2", "1.1.1"]


def test_without_controls_they_are_only_counted() -> None:
    story = Story()
    story.tries("1", 0.5)
    story.tries("1", 2.0, Pool.CONTROL)
    story.tries("1", 0.5, Pool.CONTROL)
    *rows, last = tree(story.history, TOP, controls=False)
    assert ids(rows) == ["1", "1.1"]
    assert isinstance(last, HiddenControls)
    assert (last.count, last.best and last.best.id, last.score) == (2, "1.2", 2.0)
    assert not any(isinstance(row, HiddenControls) for row in tree(story.history, TOP))


def test_a_node_shows_its_effect_over_its_parent_not_over_the_best() -> None:
    story = Story(baseline=1.0)
    story.tries("1", 4.0)
    story.tries("1", 2.0)
    rows = {row.node.id: row for row in tree(story.history, TOP) if isinstance(row, TreeRow)}
    found = rows[NodeId("1.2")].over_parent
    assert found is not None
    assert found.change.percent == 100.0
    assert rows[TOP].over_parent is None
