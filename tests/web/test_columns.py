"""Columns of a run: what queries fill at once equals what the nodes say one by one."""

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Verdict
from loopty.record.sessions import RunStarted
from loopty.record.trials import Cohorts
from loopty.record.verdicts import NodeJudged
from loopty.show.rated_nodes import rate_whole
from loopty.web.columns import NodeColumns
from loopty.web.record import RecordFeed

from .story import commit


def columns_from_nodes(history, run):
    columns, present = NodeColumns(), Cohorts.of(history.runs[run]).fingerprint
    for node in (history[node] for node in history.ids if node.run == run):
        place = columns.put(rate_whole(history, node, present))
        parent, seconds = (
            (history.handle(node.id.parent) if node.id.parent else 0),
            getattr(node.outcome, "seconds", 0),
        )
        columns.put_label(place, parent, node.added_at, seconds, node.operator, node.summary)
    return columns


def shown(columns):
    operators = map(columns.operator, range(len(columns)))
    rows = zip(
        columns.handles,
        columns.marks,
        columns.pools,
        map(repr, columns.scores),
        columns.times,
        columns.parents,
        columns.seconds,
        columns.summaries,
        operators,
        strict=True,
    )
    return list(rows), +columns.counts


@pytest.mark.parametrize("run", [1, 2])
def test_queries_and_single_nodes_fill_the_same_columns(story, top, run):
    changed = commit(top, "x.txt", "three\n")
    story.record(NodeJudged(NodeId("1.4"), Verdict.DISCARDED, "taken back", NodeId("1")))
    story.record(RunStarted(2, "c", Objective(), 0, "the second run", secret="s"))
    story.node("2", changed, 1.0, Verdict.KEPT, operator="baseline")
    for number in range(1, 100):
        score = None if number % 7 == 0 else number / 100
        story.node(f"2.{number}", changed, score, Verdict.HELD if number == 9 else Verdict.DISCARDED)
    feed = RecordFeed(top)
    assert feed.open()
    columns = feed.fold(run).columns
    assert shown(columns) == shown(columns_from_nodes(feed.history, run))
    assert len(columns) == {1: 7, 2: 100}[run]


def test_places_of_a_mark_are_found_in_order():
    columns = NodeColumns()
    columns.marks = bytearray([0, 3, 0, 8, 3])
    assert [columns.places_with(mark) for mark in (0, 3, 8, 1)] == [[0, 2], [1, 4], [3], []]
