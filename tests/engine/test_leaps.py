"""A gain that is too good to be true is held, where the candidate could have cheated."""

import types

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.proposal import BY_AGENT, Proposal
from loopty.domain.trial import Ending, Integrity, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.features.sharing.apply import applicable_node
from loopty.kit.records import replace
from loopty.record.nodes import ProposalRefused
from loopty.record.trials import Trials, trial_parts
from loopty.record.verdicts import Incumbents
from loopty.session import hand_decisions
from loopty.show.closing_text import closing_text
from loopty.show.run_status import status
from loopty.testing.fakes import object_name

ROOT = NodeId("1")


def best(run):
    return Incumbents.of(run.run, Pool.ATTEMPT).best


def judged(run, place, score, integrity=Integrity.WEAK, tree=None, operator="rewrite", beside=0.0, metric="score"):
    """Node 1.N with this score, measured to its verdict; `beside` it the baseline has that one."""
    node = NodeId(f"1.{place}")
    proposal, files = (
        Proposal(operator, ROOT, "a change", {"x": place / 10}),
        CommittedFiles(object_name("c"), tree or object_name(f"t{place}")),
    )
    run.recorder.record(lambda h: decisions.add_node(h, proposal, files, Pool.ATTEMPT))
    run.start(node)
    while run.history[node].verdict is None:
        (name,) = Trials.of(run.run).running
        measured, number = trial_parts(name)
        value = score if measured == node else beside
        run.end(measured, number, Outcome(Ending.FINISHED, {metric: value}, integrity=integrity))
    return run.history[node]


def run_with_baseline(bench, score):
    run = bench(lambda _: 0.0)
    run.start("1")
    while run.history[ROOT].verdict is None:
        run.end("1", run.history[ROOT].trials, Outcome(Ending.FINISHED, {"score": score}))
    return run


@pytest.fixture
def run(bench):
    run = run_with_baseline(bench, 100.0)
    assert judged(run, 1, 102.0).verdict is Verdict.KEPT
    return run


def test_a_leap_with_weak_integrity_is_held_and_does_not_become_best(run):
    node = judged(run, 2, 5000.0)
    assert node.verdict is Verdict.HELD
    assert "loopty node approve @3" in node.reason
    assert best(run) == "1.1"
    found = status(run.history, run.run, 0.0, lambda _: True)
    assert [(held.node, held.handle, held.score) for held in found.held] == [("1.2", 3, 5000.0)]
    text = closing_text(found, "spent", columns=500)
    assert "held: @3 (5000) waits for you: its gain is suspiciously large" in text
    assert "look at it: loopty show @3\naccept it: loopty node approve @3 --why TEXT" in text


def test_a_person_can_accept_it(run):
    judged(run, 2, 5000.0)
    run.recorder.record(lambda h: hand_decisions.accept_held(h, NodeId("1.2"), "I read it"))
    assert best(run) == "1.2"
    assert run.history[NodeId("1.2")].reason == "accepted by hand: I read it"
    assert status(run.history, run.run, 0.0, lambda _: True).held == ()


def test_only_a_person_builds_on_what_is_held(run):
    held = judged(run, 2, 5000.0).id
    files = CommittedFiles(object_name("d"), object_name("td"))
    for operator, added in (("rewrite", False), (BY_AGENT, False), ("hand", True)):
        child = Proposal(operator, held, "a change", {"x": 0.5})
        run.recorder.record(lambda h, child=child: decisions.add_node(h, child, files, Pool.ATTEMPT))
        assert (run.history[held].children == 1) is added
    refused = [item.event for item in run.ledger.read() if isinstance(item.event, ProposalRefused)]
    assert [event.reason for event in refused] == ["its parent @3 is held until a person accepts it"] * 2


def test_what_is_held_is_not_applied(run):
    held = judged(run, 2, 5000.0).id
    record = types.SimpleNamespace(history=run.history, flaw=lambda: None)
    with pytest.raises(Misuse, match=r"@3 is held .*accept it first"):
        applicable_node(record, held, print)


def test_what_is_not_held_cannot_be_accepted(run):
    with pytest.raises(Misuse, match="is not held"):
        run.recorder.record(lambda h: hand_decisions.accept_held(h, NodeId("1.1"), "so"))


def test_what_was_overtaken_cannot_be_accepted(run):
    judged(run, 2, 5000.0)
    judged(run, 3, 110.0)
    with pytest.raises(Misuse, match="not compared with @4, the best one now"):
        run.recorder.record(lambda h: hand_decisions.accept_held(h, NodeId("1.2"), "so"))


@pytest.mark.parametrize(
    ("score", "integrity", "tree"),
    [
        (5000.0, Integrity.STRONG, None),
        (130.0, Integrity.WEAK, None),  # many times the largest gain, but no other order of magnitude
        (5000.0, Integrity.WEAK, "f0" * 20),  # the files of the baseline: only parameters differ
    ],
)
def test_other_gains_are_kept(run, score, integrity, tree):
    assert judged(run, 2, score, integrity, tree).verdict is Verdict.KEPT


@pytest.mark.parametrize(
    ("baseline", "score", "verdict"),
    [
        (100.0, 20000.0, Verdict.HELD),
        (-100.0, -0.5, Verdict.HELD),  # a loss that all but vanishes
        (100.0, 900.0, Verdict.KEPT),
        (100.0, 4900.0, Verdict.HELD),  # a cache of whole inputs
        (0.0, 5000.0, Verdict.KEPT),  # no scale to measure it by
        (-1.0, 5000.0, Verdict.KEPT),
    ],
)
def test_the_first_gain_of_a_run_is_held_if_it_is_tenfold(bench, baseline, score, verdict):
    run = run_with_baseline(bench, baseline)
    node = judged(run, 1, score)
    assert node.verdict is verdict
    assert best(run) == ("1" if verdict is Verdict.HELD else "1.1")


def test_a_held_first_gain_says_what_it_was_and_how_to_accept_it(bench):
    run = run_with_baseline(bench, 100.0)
    reason = judged(run, 1, 20000.0).reason
    assert "the first gain, from 100 to 2e+04" in reason
    assert "loopty node approve @2" in reason


def test_a_first_gain_that_could_not_cheat_is_kept(bench):
    run = run_with_baseline(bench, 100.0)
    assert judged(run, 1, 20000.0, Integrity.STRONG).verdict is Verdict.KEPT


def test_what_the_verifier_passed_is_not_held(run):
    from loopty.judge.leaps import hold_leap
    from loopty.record.node_record import Review

    node = judged(run, 2, 5000.0)
    run.history.put(replace(node, verdict=None, review=Review(True, "fine")))
    ruling = decisions.NodeJudged(node.id, Verdict.KEPT, "better", NodeId("1.1"))
    assert hold_leap(run.history, ruling) == ruling


@pytest.mark.parametrize(
    ("share", "score", "verdict"),
    [
        (0.5, 30.0, Verdict.HELD),  # three times as fast, although the other half of the time is not editable
        (0.5, 55.0, Verdict.KEPT),
        (0.5, 49.8, Verdict.KEPT),  # within the noise of what is possible
        (0.98, 12.0, Verdict.KEPT),  # nearly all of the time is editable
        (0.98, 3.0, Verdict.HELD),  # a first gain of an order of magnitude is looked at, whatever is editable
    ],
)
def test_no_first_gain_exceeds_what_the_editable_share_of_the_time_allows(bench, share, score, verdict):
    run = bench(lambda _: 0.0, Objective(Direction.MIN))
    run.editable_share = share
    run.start("1")
    for value in (100.0, 101.0, 99.0, 100.5, 99.5, 100.0):
        run.end("1", run.history[ROOT].trials, Outcome(Ending.FINISHED, {"score": value}))
    node = judged(run, 1, score, beside=100.0)
    assert node.verdict is verdict
    assert ("is editable" in node.reason) == (share == 0.5 and verdict is Verdict.HELD)


@pytest.mark.parametrize(
    ("metric", "baseline", "score", "verdict"),
    [
        ("score", 5.0, 0.0, Verdict.HELD),
        ("seconds", 5.0, 4.9e-10, Verdict.HELD),
        ("ns_per_op", 5.0, 0.4, Verdict.HELD),
        ("error", 0.005, 4.9e-4, Verdict.KEPT),
        ("ns_per_op", 5.0, 4.0, Verdict.KEPT),
    ],
)
def test_a_score_of_zero_or_below_the_clock_is_always_held(bench, metric, baseline, score, verdict):
    run = bench(lambda _: 0.0, Objective(metrics=(Metric(metric, Direction.MIN),)))
    run.editable_share = 0.99
    run.start("1")
    for _ in range(3):
        run.end("1", run.history[ROOT].trials, Outcome(Ending.FINISHED, {metric: baseline}))
    assert judged(run, 1, score, Integrity.STRONG, metric=metric).verdict is verdict


def test_what_an_agent_made_is_held_like_what_a_model_made(run):
    assert judged(run, 2, 5000.0, operator=BY_AGENT).verdict is Verdict.HELD


def test_what_a_person_made_is_not_held(run):
    assert judged(run, 2, 5000.0, operator="hand").verdict is Verdict.KEPT
