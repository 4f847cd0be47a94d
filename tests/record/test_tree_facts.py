"""The facts beside a page are those of the whole node, however it was saved."""

import json

import apsw

from loopty.domain.ids import NodeId
from loopty.ledgers.memory import MemoryLedger
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.node_facts import tree_facts_text

from .test_lazy_nodes import DraftingRun


def test_saved_facts_are_those_of_the_nodes(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    for each in (ledger, MemoryLedger()):
        run = DraftingRun(each, 7)
        for _ in range(60):
            run.step()
        history = run.recorder.history
        facts = [(node, tree_facts_text(history[node])) for node in history.ids]
        assert len(facts) > 3
        assert list(history.all_tree_facts()) == facts
        assert [(node, history.tree_facts(node)) for node in history.ids] == facts
    assert ledger.flaw() is None


def test_a_change_of_the_facts_by_hand_is_found(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    facts = json.loads(DraftingRun(ledger, 7).recorder.history.tree_facts(NodeId("1")))
    facts[3] = "another summary"
    db = apsw.Connection(str(tmp_path / "ledger.sqlite"))
    db.execute("UPDATE pages SET facts = ? WHERE key = '1'", (json.dumps(facts),))
    db.close()
    assert ledger.flaw() == "the record of node 1 was changed"
