"""What the facts beside pages tell about nodes is what the decoded nodes tell."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.trial import SEARCH_POOLS, Ending, Outcome, Pool
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.trials import Cohorts, TrialEnded
from loopty.show.rated_nodes import Mark, points, rate_whole, rated_nodes

from ..record.test_lazy_nodes import DraftingRun
from .story import Story


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 120))
def test_a_rated_node_equals_what_its_page_says(seed, steps):
    run = DraftingRun(MemoryLedger(), seed)
    for _ in range(steps):
        run.step()
    history = run.recorder.history
    present = Cohorts.of(history.runs[1]).fingerprint
    whole = [rate_whole(history, node, present) for pool in SEARCH_POOLS for node in history.nodes(1, pool)]
    rated = rated_nodes(history, 1)
    assert [plain(node) for node in rated.nodes] == [plain(node) for node in whole]
    assert rated.ids(rated.nodes) == [node for pool in SEARCH_POOLS for node in history.nodes_of_pool(1, pool)]


def plain(node):
    return tuple(node._replace(record=None))


@pytest.mark.parametrize("baseline", [1.0, None])
def test_plain_nodes_are_rated_without_their_pages(baseline):
    story = Story(baseline=baseline)
    for number in range(50):
        tried = story.adds("1")
        story.starts(tried)
        story.tell(TrialEnded(tried, 1, Outcome(Ending.FINISHED, {"score": number / 100})))
    history, read = story.history_and_reads()
    rated = rated_nodes(history, 1).nodes
    assert len(rated) == 51
    assert set(read) <= {"1"}
    whole = [rate_whole(history, node, "") for node in history.nodes(1, Pool.ATTEMPT)]
    assert [plain(node) for node in rated] == [plain(node) for node in whole]


def test_a_thinned_chart_keeps_what_was_kept_the_extremes_and_the_counts():
    story = Story()
    for number in range(300):
        story.tries("1", -9.0 if number == 123 else 0.9 - number % 7 / 100)
    story.tries("1", 2.0)
    whole = points(story.history, 1)
    thin = points(story.history, 1, most=40)
    assert thin.is_thinned
    assert not whole.is_thinned
    assert len(thin.items) < 80
    assert (thin.marks, thin.control) == (whole.marks, whole.control)
    assert set(thin.items) <= set(whole.items)
    assert {item for item in whole.items if item.mark is Mark.KEPT} <= set(thin.items)
    assert min(item.score for item in thin.items) == -9.0
    assert [item.order for item in thin.items] == sorted(item.order for item in thin.items)
    assert thin.items[-1] == whole.items[-1]
