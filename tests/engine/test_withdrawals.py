"""A verdict can be taken back: the best is elected anew, and what lost only to it gets one more judgement."""

import pytest

from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse, Taken
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Proposal
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.judge import revisions
from loopty.kit import codec
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.nodes import ProposalRefused
from loopty.record.trials import Trials
from loopty.record.verdicts import Incumbents, NodeReopened, VerdictWithdrawn
from loopty.session import hand_decisions
from loopty.testing.fakes import object_name


class Tree:
    """A run whose nodes are added, measured and judged one by one."""

    def __init__(self, bench):
        self.scores = {"1": 0.0}
        self.bench = bench(lambda trial: self.scores.get(str(trial.node.id), -1.0), pools=Pools(attempts=20))
        self.judge("1")

    def add(self, parent, score):
        """A change of this node, judged."""
        node = self.add_only(parent)
        self.scores[node] = score
        self.judge(node)
        return node

    def add_only(self, parent, draft=False):
        number = len(list(self.history.ids))
        proposal = Proposal("hand", NodeId(parent), "a change", {"x": number / 100})
        files = CommittedFiles(f"{number:040x}", f"{number:040x}")
        recorded = self.bench.recorder.record(
            lambda h: decisions.add_node(h, proposal, files, Pool.ATTEMPT, draft=draft)
        )
        return str(recorded[0].event.node) if not isinstance(recorded[0].event, ProposalRefused) else None

    def judge(self, node):
        """Run what the verdict about a node needs; a measurement of the incumbent is among it."""
        self.bench.start(node)
        while running := Trials.of(self.bench.run).running:
            measured, number = next(iter(running)).split("#")
            self.bench.end(measured, int(number), Outcome(Ending.FINISHED, {"score": self.scores[measured]}))

    def withdraw(self, how, node, why="it reads the answers"):
        return [item.event for item in self.bench.recorder.record(lambda h: how(h, NodeId(node), why))]

    @property
    def history(self):
        return self.bench.history

    def node(self, node):
        return self.history[NodeId(node)]

    @property
    def best(self):
        return Incumbents.of(self.bench.run, Pool.ATTEMPT).best


@pytest.fixture
def tree(bench):
    """1 is beaten by 1.1, that by 1.2; 1.3 loses only to 1.2, and 1.2.1 beats 1.2."""
    made = Tree(bench)
    made.add("1", 1.0)
    made.add("1", 9.0)
    made.add("1", 5.0)
    made.add("1.2", 10.0)
    return made


def test_the_best_is_elected_anew_from_what_is_still_kept(tree):
    assert tree.best == "1.2.1"
    tree.withdraw(revisions.discard_node, "1.2.1", "too long")
    assert tree.best == "1.2"
    assert tree.node("1.2.1").verdict is Verdict.DISCARDED
    assert tree.node("1.2.1").withdrawn.verdict is Verdict.KEPT
    assert tree.node("1.2.1").withdrawn.why == "too long"


def test_a_cheat_is_rejected_with_its_descendants_and_the_record_stays(tree):
    events = tree.withdraw(revisions.invalidate_node, "1.2")
    assert [event.node for event in events if isinstance(event, VerdictWithdrawn)] == ["1.2", "1.2.1"]
    assert tree.node("1.2").verdict is tree.node("1.2.1").verdict is Verdict.REJECTED
    assert "descends from @3: it reads the answers" in tree.node("1.2.1").reason
    assert tree.node("1.2").outcome.metrics["score"] == 9.0
    assert tree.best == "1.1"


def test_what_lost_only_against_a_cheat_is_judged_once_more_and_kept_if_it_is_better(tree):
    assert tree.node("1.3").verdict is Verdict.DISCARDED
    tree.withdraw(revisions.invalidate_node, "1.2")
    assert tree.node("1.3").verdict is None
    assert tree.node("1.3").reopened_for == ("1.2",)
    tree.judge("1.3")
    assert tree.node("1.3").verdict is Verdict.KEPT
    assert tree.node("1.3").against == "1.1"
    assert tree.best == "1.3"


def test_what_lost_to_another_node_keeps_its_verdict(tree):
    lost = tree.add("1", -3.0)
    assert tree.node(lost).against == "1.2.1"
    tree.withdraw(revisions.discard_node, "1.2")
    assert tree.node(lost).verdict is Verdict.DISCARDED


def test_one_cause_gives_one_judgement_and_no_more(tree):
    tree.withdraw(revisions.discard_node, "1.2.1")
    tree.withdraw(revisions.invalidate_node, "1.2")
    tree.scores["1.3"] = 0.5
    tree.judge("1.3")
    assert tree.node("1.3").verdict is not None
    with pytest.raises(Taken, match="has its verdict"):
        tree.bench.start("1.3")
    again = VerdictWithdrawn(NodeId("1.2"), Verdict.DISCARDED, "again")
    assert list(revisions.withdraw(tree.history, [again])) == [again]
    with pytest.raises(Misuse, match="already"):
        tree.withdraw(revisions.invalidate_node, "1.2")


def test_a_withdrawn_node_never_comes_back(tree):
    tree.withdraw(revisions.discard_node, "1.2", "not wanted")
    events = tree.withdraw(revisions.invalidate_node, "1.1")
    assert not [event for event in events if isinstance(event, NodeReopened) and event.node == "1.2"]
    with pytest.raises(Taken):
        tree.bench.start("1.2")


def test_a_trial_that_runs_while_its_node_is_invalidated_changes_nothing(tree):
    node = tree.add_only("1.2")
    tree.bench.start(node)
    tree.withdraw(revisions.invalidate_node, "1.2")
    tree.bench.end(node, 1, Outcome(Ending.FINISHED, {"score": 99.0}))
    assert tree.node(node).verdict is Verdict.REJECTED
    assert tree.best == "1.1"
    assert node not in Trials.of(tree.bench.run).undecided


def test_nothing_is_built_on_a_cheat(tree):
    tree.withdraw(revisions.invalidate_node, "1.2")
    assert tree.add_only("1.2.1") is None
    with pytest.raises(Misuse, match="invalidated"):
        tree.add_only("1.2", draft=True)


def test_the_baseline_and_a_discarded_node_have_nothing_to_withdraw(tree):
    for how in (revisions.discard_node, revisions.invalidate_node):
        with pytest.raises(Misuse, match="baseline"):
            tree.withdraw(how, "1")
    with pytest.raises(Misuse, match="discarded already"):
        tree.withdraw(revisions.discard_node, "1.3")


def test_the_fold_is_the_same_from_events_and_from_tables(tree):
    tree.withdraw(revisions.invalidate_node, "1.2")
    opened, folded = tree.bench.ledger.history(), MemoryLedger().history()
    for recorded in tree.bench.ledger.read():
        folded.apply(recorded)
    assert codec.plain(opened.runs) == codec.plain(folded.runs)
    assert [opened[node] for node in opened.ids] == [folded[node] for node in folded.ids]


async def test_the_loop_judges_what_is_open_again(tree):
    tree.withdraw(revisions.invalidate_node, "1.2")
    await tree.bench.drive()
    assert tree.node("1.3").verdict is Verdict.KEPT
    assert tree.best == "1.3"


@pytest.mark.parametrize(("score", "verdict"), [(60.0, Verdict.REJECTED), (40.0, Verdict.KEPT)])
def test_a_bound_that_is_added_during_a_first_trial_applies_to_it_where_one_measurement_decides(
    bench, score, verdict
):
    run = bench(lambda _: 0.0, pools=Pools(attempts=20), noise=Noise(repeat="never"))
    run.start("1")
    run.end("1", 1, Outcome(Ending.FINISHED, {"score": 0.0}))
    proposal, files = (
        Proposal("rewrite", NodeId("1"), "a change", {"x": 0.5}),
        CommittedFiles(object_name("c"), object_name("t")),
    )
    run.recorder.record(lambda h: decisions.add_node(h, proposal, files, Pool.ATTEMPT))
    run.start("1.1")
    gate = Gate("plausible", metric="score", maximum=50.0)
    run.recorder.record(lambda h: hand_decisions.add_gate(h, NodeId("1"), gate))
    run.end("1.1", 1, Outcome(Ending.FINISHED, {"score": score}))
    node = run.history[NodeId("1.1")]
    assert node.verdict is verdict
    assert ("gate plausible" in node.reason) == (verdict is Verdict.REJECTED)


def test_a_restored_winner_has_to_win_again(bench):
    tree = Tree(bench)
    winner = tree.add("1", 1.0)
    better = tree.add("1", 2.0)
    tree.withdraw(revisions.discard_node, winner)
    nodes = revisions.nodes_to_restore(tree.history, NodeId(winner))
    tree.bench.recorder.record(lambda h: revisions.restore_nodes(h, nodes, "a mistake"))
    assert tree.history[NodeId(winner)].verdict is None
    tree.judge(winner)
    assert tree.history[NodeId(winner)].verdict is Verdict.DISCARDED
    assert Incumbents.of(tree.bench.run, Pool.ATTEMPT).best == better


def test_what_was_invalidated_with_its_ancestor_is_restored_with_it(bench):
    tree = Tree(bench)
    winner = tree.add("1", 1.0)
    loser = tree.add(winner, 0.5)
    tree.withdraw(revisions.invalidate_node, winner)
    assert tree.history[NodeId(loser)].verdict is Verdict.REJECTED
    with pytest.raises(Misuse, match="restore that first"):
        revisions.nodes_to_restore(tree.history, NodeId(loser))
    nodes = revisions.nodes_to_restore(tree.history, NodeId(winner))
    assert set(nodes) == {winner, loser}
    tree.bench.recorder.record(lambda h: revisions.restore_nodes(h, nodes, "a mistake"))
    assert tree.history[NodeId(loser)].verdict is Verdict.DISCARDED
    tree.judge(winner)
    assert tree.history[NodeId(winner)].verdict is Verdict.KEPT


def test_what_a_gate_took_back_is_not_restored(bench):
    tree = Tree(bench)
    winner = tree.add("1", 1.0)
    tree.bench.recorder.record(lambda h: revisions.reject_by_gate(h, {NodeId(winner): "too slow"}))
    with pytest.raises(Misuse, match="a gate took"):
        revisions.nodes_to_restore(tree.history, NodeId(winner))
    with pytest.raises(Misuse, match="none is restored"):
        revisions.nodes_to_restore(tree.history, NodeId("1"))
