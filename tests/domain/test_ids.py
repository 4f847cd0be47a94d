"""Dotted ids."""

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId


def test_an_id_tells_the_position_in_the_tree():
    node = NodeId.parse("1.3.2")
    assert (node.run, node.parent, node.depth) == (1, "1.3", 2)
    assert node.lineage == ["1", "1.3", "1.3.2"]
    assert NodeId("1").parent is None
    assert NodeId("1").child(4) == "1.4"


@pytest.mark.parametrize("text", ["", "0", "1.", ".1", "1..2", "1.0", "a", "1.2a", "01", "-1", "1,2", "1.3.2 "])
def test_a_text_that_is_no_id_is_refused_with_an_example(text):
    with pytest.raises(Misuse, match="a node is @431, its path"):
        NodeId.parse(text)


def test_ids_sort_by_number_not_by_letter():
    assert sorted([NodeId("1.10"), NodeId("1.9"), NodeId("1")], key=lambda node: node.sort_key) == [
        "1",
        "1.9",
        "1.10",
    ]


def test_a_deep_id_still_names_a_file_and_a_branch_of_its_own():
    deep, other = NodeId("1" + ".1" * 3000), NodeId("1" + ".1" * 2999 + ".2")
    assert len(deep.branch) < 200
    assert deep.branch != other.branch
    assert NodeId("1.3.2").branch == "loopty-1.3.2"
