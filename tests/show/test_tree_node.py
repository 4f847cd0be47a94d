"""A node of the tree from its facts."""

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending, Pool, Verdict
from loopty.show.tree_rows import read_tree_node, read_tree_nodes

ONE = '[1,"attempt","baseline","",{},null,null,null,"",{}]'
TWO = '[2,"attempt","hand","s",{"x":1},"kept","1","finished","f",{"score":2.0},{"running":true,"edits":["a.py"]}]'


def test_what_few_nodes_have_is_read_by_name() -> None:
    one, two = read_tree_nodes([(NodeId("1"), ONE), (NodeId("1.1"), TWO)])
    assert (one.running, one.edits, one.effect, one.verdict, one.ending, one.is_pending) == (
        *(False, (), None, None, None, True),
    )
    assert (two.id, two.handle, two.pool, two.verdict, two.ending) == (
        *("1.1", 2, Pool.ATTEMPT, Verdict.KEPT, Ending.FINISHED),
    )
    assert (two.running, two.edits, two.metrics) == (True, ["a.py"], {"score": 2.0})


@pytest.mark.parametrize("facts", ["", "{", "[]", "[1]", '"text"', ONE.replace("attempt", "other"), "null"])
def test_damaged_facts_name_the_node(facts: str) -> None:
    with pytest.raises(Misuse, match=r"the record of node 1\.1 is damaged"):
        read_tree_node(NodeId("1.1"), facts)
    with pytest.raises(Misuse, match=r"the record of node 1\.1 is damaged"):
        list(read_tree_nodes([(NodeId("1"), ONE), (NodeId("1.1"), facts)]))
