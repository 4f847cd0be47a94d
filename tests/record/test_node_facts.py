"""The facts of a block of nodes are written as JSON."""

import json

import pytest

from loopty.record.node_facts import FactsKind, NodeFacts, make_block, read_block

KIND = FactsKind(1, "attempt", "kept", "finished", "no None here", "score", 0, True)


def test_a_block_is_one_line_of_json_and_is_read_as_it_was_written():
    nodes = [
        NodeFacts(1, None, None, 0, KIND),
        NodeFacts(2, -1.5e-07, 0.04, 12, KIND),
        NodeFacts(3, 10**30, None, 17, KIND._replace(metric=None)),
    ]
    block = make_block(0, nodes)
    assert json.loads(block.text)[1] == [None, -1.5e-07, 10**30]
    assert " " not in block.text.replace("no None here", "")
    assert read_block(0, block.text).nodes == nodes


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_json_cannot_hold_is_refused(score):
    with pytest.raises(ValueError, match="finite"):
        assert make_block(0, [NodeFacts(1, score, None, 0, KIND)]).text
