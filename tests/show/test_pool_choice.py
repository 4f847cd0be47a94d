"""Which nodes are combined: good ones that differ."""

from loopty.domain.access import ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.fold import Recorded
from loopty.record.nodes import NodeAdded
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.show.chosen_nodes import choose_pool

NAME = ObjectName("c0" * 20)


def make_history(*nodes):
    """A run with nodes as (id, score, artifact, params, verdict)."""
    events = [RunStarted(1, "c", Objective(), 0, "")]
    for node, score, artifact, params, verdict in (("1", 0.0, "", {}, Verdict.KEPT), *nodes):
        artifacts = {"p": artifact} if artifact else {}
        events += [
            NodeAdded(NodeId(node), Pool.ATTEMPT, "x", "", NAME, ObjectName(f"{len(events):040x}"), params),
            TrialStarted(NodeId(node), 1, Pool.ATTEMPT, "me"),
            TrialEnded(NodeId(node), 1, Outcome(Ending.FINISHED, {"score": score}, artifacts=artifacts)),
            NodeJudged(NodeId(node), verdict, "", NodeId("1")),
        ]
    history = MemoryLedger().history()
    for number, event in enumerate(events, start=1):
        history.apply(Recorded(number, float(number), event))
    return history


def chosen(history, members):
    return [str(member.node) for member in choose_pool(history, 1, members)]


KEPT, DISCARDED = Verdict.KEPT, Verdict.DISCARDED


def test_the_best_comes_first_and_the_next_differs_from_it():
    history = make_history(
        ("1.1", 0.9, "a", {"kind": "tree", "depth": 3}, DISCARDED),
        ("1.2", 1.0, "b", {"kind": "tree", "depth": 3}, KEPT),
        ("1.3", 0.7, "c", {"kind": "line", "depth": 1}, DISCARDED),
        ("1.4", 0.1, "d", {"kind": "near", "depth": 2}, DISCARDED),
    )
    assert chosen(history, 2) == ["1.2", "1.3"]
    assert set(chosen(history, 9)) == {"1.1", "1.2", "1.3", "1.4"}


def test_equal_artifacts_count_once_and_nodes_without_any_are_left_out():
    history = make_history(
        ("1.1", 1.0, "a", {"x": 1}, KEPT), ("1.2", 0.9, "a", {"x": 2}, DISCARDED), ("1.3", 0.8, "", {"x": 3}, KEPT)
    )
    assert chosen(history, 4) == ["1.1"]


def test_a_rejected_node_is_never_combined():
    history = make_history(("1.1", 2.0, "a", {"x": 1}, Verdict.REJECTED), ("1.2", 0.9, "b", {"x": 2}, KEPT))
    assert chosen(history, 4) == ["1.2"]


def test_the_choice_is_the_same_each_time_and_says_why():
    history = make_history(("1.1", 1.0, "a", {"x": 1}, KEPT), ("1.2", 0.9, "b", {"x": 2}, DISCARDED))
    first, second = choose_pool(history, 1, 4)
    assert (first.reason, second.reason) == ("the best node", "100 % unlike the members before it")
    assert choose_pool(history, 1, 4) == [first, second]
    assert (first.score, dict(first.artifacts)) == (1.0, {"p": "a"})


def test_with_patches_a_node_needs_no_artifacts_but_a_change():
    history = make_history(
        ("1.1", 3.0, "", {}, KEPT), ("1.2", 2.0, "", {}, DISCARDED), ("1.3", 1.0, "a", {}, DISCARDED)
    )
    assert chosen(history, 8) == ["1.3"]
    assert {member.node for member in choose_pool(history, 1, 8, patches=True)} == {"1.1", "1.2", "1.3"}
