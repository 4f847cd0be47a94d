"""Keep or discard."""

from loopty.core import decisions
from loopty.core.events import Recorded
from loopty.core.ids import NodeId
from loopty.core.judge import judged
from loopty.core.objective import Direction, Metric, Objective
from loopty.core.outcome import Ending, Outcome, Pool, Verdict
from loopty.core.parts import Committed
from loopty.core.proposal import Proposal
from loopty.core.task import Pools

ROOT = NodeId("1")


def settled(bench, objective, baseline):
    """A run whose baseline has this outcome, and one more node to judge."""
    run = bench(lambda _: 1.0, objective=objective)
    pools = Pools()
    run.scribe.decide(lambda h: decisions.trial_started(h, ROOT, "me", pools))
    run.scribe.decide(lambda h: decisions.trial_ended(h, ROOT, 1, baseline))
    proposal = Proposal("hand", ROOT, "a change", {"x": 0.9})
    run.scribe.decide(lambda h: decisions.node_added(h, proposal, Committed("c1", "t1"), Pool.ATTEMPT))
    return run.history


def verdict(bench, objective, baseline, candidate):
    history = settled(bench, objective, Outcome(Ending.FINISHED, baseline))
    return judged(history, NodeId("1.1"), Outcome(Ending.FINISHED, candidate))


def test_equal_is_not_better(bench):
    found = verdict(bench, Objective(), {"score": 1.0}, {"score": 1.0})
    assert found.verdict is Verdict.DISCARDED
    assert found.reason.startswith("no better")


def test_metrics_count_in_their_order_and_a_tolerance_hands_over_to_the_next(bench):
    objective = Objective(
        metrics=(Metric("latency", Direction.MIN, tolerance=1.0), Metric("accuracy", Direction.MAX))
    )
    base = {"latency": 10.0, "accuracy": 0.9}
    assert verdict(bench, objective, base, {"latency": 8.0, "accuracy": 0.1}).verdict is Verdict.KEPT
    assert verdict(bench, objective, base, {"latency": 9.5, "accuracy": 0.91}).verdict is Verdict.KEPT
    assert verdict(bench, objective, base, {"latency": 9.5, "accuracy": 0.89}).verdict is Verdict.DISCARDED
    assert verdict(bench, objective, base, {"latency": 11.5, "accuracy": 1.0}).verdict is Verdict.DISCARDED


def test_weights_compare_the_sum(bench):
    objective = Objective(metrics=(Metric("a", weight=1.0), Metric("b", Direction.MIN, weight=0.5)))
    base = {"a": 1.0, "b": 1.0}
    assert verdict(bench, objective, base, {"a": 2.0, "b": 2.0}).verdict is Verdict.KEPT
    assert verdict(bench, objective, base, {"a": 1.2, "b": 2.0}).verdict is Verdict.DISCARDED


def test_a_missing_metric_is_missing_and_never_invented(bench):
    objective = Objective(metrics=(Metric("accuracy"),))
    history = settled(bench, objective, Outcome(Ending.FINISHED, {"accuracy": -5.0}))
    started = decisions.trial_started(history, NodeId("1.1"), "me", Pools())[0]
    history.apply(Recorded(history.number + 1, 0.0, started))
    outcome = Outcome(Ending.FINISHED, {"other": 9.0})
    ended, found = decisions.trial_ended(history, NodeId("1.1"), 1, outcome)
    assert ended.outcome.ending is Ending.FAILED
    assert found.verdict is Verdict.DISCARDED
    assert "did not report accuracy" in found.reason


def test_what_did_not_finish_is_discarded_with_its_reason(bench):
    history = settled(bench, Objective(), Outcome(Ending.FINISHED, {"score": -3.0}))
    for ending in (Ending.FAILED, Ending.TIMED_OUT, Ending.PRUNED):
        found = judged(history, NodeId("1.1"), Outcome(ending, {"score": 99.0}, reason="so it was"))
        assert found.verdict is Verdict.DISCARDED
        assert "so it was" in found.reason
