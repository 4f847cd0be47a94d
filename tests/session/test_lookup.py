"""Which node a person means."""

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.fold import Recorded
from loopty.record.nodes import NodeAdded
from loopty.record.sessions import RunStarted
from loopty.session import lookup

from ..engine.conftest import make_task


@pytest.fixture
def history():
    """Two runs whose nodes were added in turns."""
    history = MemoryLedger().history()
    task = make_task()
    names = ["1", "1.1", "2", "1.2", "2.1", "1.1.1"]
    events = [RunStarted(1, "", task.objective, 0, ""), RunStarted(2, "", task.objective, 0, "")]
    events += [NodeAdded(NodeId(name), Pool.ATTEMPT, "x", "", "c0" * 20, "f0" * 20) for name in names]
    for number, event in enumerate(events, start=1):
        history.apply(Recorded(number, 0.0, event))
    return history


@pytest.mark.parametrize("sign", "#@")
def test_a_handle_names_the_same_node_as_its_id(history, sign):
    for handle, node in enumerate(["1", "1.1", "2", "1.2", "2.1", "1.1.1"], start=1):
        assert lookup.find_node(history, f"{sign}{handle}") == node
        assert history.handle(NodeId(node)) == handle


def test_handles_are_counted_over_all_runs_and_never_change(history):
    before = {node: history.handle(node) for node in history.ids}
    history.apply(Recorded(9, 0.0, NodeAdded(NodeId("1.3"), Pool.CONTROL, "x", "", "c0" * 20, "f0" * 20)))
    assert {**before, NodeId("1.3"): 7} == {node: history.handle(node) for node in history.ids}


@pytest.mark.parametrize("text", ["#7", "@0", "#99999999999999999999", "#", "@x", "##1", "7", "1…3", "1.9"])
def test_a_name_that_no_node_has_is_refused(history, text):
    with pytest.raises(Misuse):
        history[lookup.node_of_text(text) or lookup.find_node(history, text)]


def test_the_baseline_has_a_name_also_before_anything_ran(history):
    assert lookup.node_of_text("baseline") is None
    assert lookup.find_node(history, "baseline") == "2", "that of the newest run"


def test_a_number_alone_is_the_baseline_of_that_run_and_else_the_node_with_that_name(history):
    assert lookup.find_node(history, "2") == "2", "run 2 has a baseline: a path comes first"
    assert lookup.find_node(history, "@2") == "1.1"
    assert lookup.find_node(history, "6") == lookup.find_node(history, "@6") == "1.1.1"
    assert lookup.node_of_text("6") is None
    assert lookup.node_of_text("1.1") == "1.1"
