"""Keep or discard."""

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import WEIGHTED_SUM, Direction, Metric, Objective
from loopty.domain.proposal import Proposal
from loopty.domain.task import Noise
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.record.verdicts import Incumbents
from loopty.testing.fakes import object_name

ROOT = NodeId("1")


def start_run(bench, objective, baseline):
    """Start a run whose baseline has this outcome, with one more node to judge."""
    run = bench(lambda _: 1.0, objective=objective, noise=Noise(repeat="never"))
    run.start("1")
    run.end("1", 1, baseline)
    proposal = Proposal("hand", ROOT, "a change", {"x": 0.9})
    run.recorder.record(
        lambda h: decisions.add_node(
            h, proposal, CommittedFiles(object_name("c1"), object_name("t1")), Pool.ATTEMPT
        )
    )
    run.start("1.1")
    return run


def end_trial(run, outcome):
    """End the node's trial; returns its verdict."""
    return run.end("1.1", 1, outcome)[-1].event


def verdict(bench, objective, baseline, candidate):
    run = start_run(bench, objective, Outcome(Ending.FINISHED, baseline))
    return end_trial(run, Outcome(Ending.FINISHED, candidate))


def test_equal_is_not_better(bench):
    found = verdict(bench, Objective(), {"score": 1.0}, {"score": 1.0})
    assert found.verdict is Verdict.DISCARDED
    assert found.reason.startswith("no better")


def test_metrics_count_in_order_and_the_next_one_decides_within_a_tolerance(bench):
    objective = Objective(
        metrics=(Metric("latency", Direction.MIN, tolerance=1.0), Metric("accuracy", Direction.MAX))
    )
    base = {"latency": 10.0, "accuracy": 0.9}
    assert verdict(bench, objective, base, {"latency": 8.0, "accuracy": 0.1}).verdict is Verdict.KEPT
    assert verdict(bench, objective, base, {"latency": 9.5, "accuracy": 0.91}).verdict is Verdict.KEPT
    assert verdict(bench, objective, base, {"latency": 9.5, "accuracy": 0.89}).verdict is Verdict.DISCARDED
    assert verdict(bench, objective, base, {"latency": 11.5, "accuracy": 1.0}).verdict is Verdict.DISCARDED


def test_with_weights_the_weighted_sum_decides(bench):
    objective = Objective(metrics=(Metric("a", weight=1.0), Metric("b", Direction.MIN, weight=0.5)))
    base = {"a": 1.0, "b": 1.0}
    assert verdict(bench, objective, base, {"a": 2.0, "b": 2.0}).verdict is Verdict.KEPT
    assert verdict(bench, objective, base, {"a": 1.2, "b": 2.0}).verdict is Verdict.DISCARDED


def test_with_weights_the_sum_is_the_score_that_every_list_shows(bench):
    objective = Objective(metrics=(Metric("a", weight=1.0), Metric("b", Direction.MIN, weight=0.5)))
    run = start_run(bench, objective, Outcome(Ending.FINISHED, {"a": 1.0, "b": 1.0}))
    run.end("1.1", 1, Outcome(Ending.FINISHED, {"a": 9.0, "b": 2.0}))
    assert [run.history.score(run.history[NodeId(node)]) for node in ("1", "1.1")] == [0.5, 8.0]
    assert run.history[NodeId("1.1")].samples == ({"a": 9.0, "b": 2.0, WEIGHTED_SUM: 8.0},)


def test_a_missing_metric_is_missing_and_never_invented(bench):
    objective = Objective(metrics=(Metric("accuracy"),))
    run = start_run(bench, objective, Outcome(Ending.FINISHED, {"accuracy": -5.0}))
    ended, found = (item.event for item in run.end("1.1", 1, Outcome(Ending.FINISHED, {"other": 9.0})))
    assert ended.outcome.ending is Ending.FAILED
    assert found.verdict is Verdict.DISCARDED
    assert "did not report accuracy" in found.reason


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.TIMED_OUT, Ending.PRUNED])
def test_a_node_whose_trial_did_not_finish_is_discarded_with_the_reason(bench, ending):
    run = start_run(bench, Objective(), Outcome(Ending.FINISHED, {"score": -3.0}))
    found = end_trial(run, Outcome(ending, {"score": 99.0}, reason="too slow"))
    assert found.verdict is Verdict.DISCARDED
    assert "too slow" in found.reason


@pytest.mark.parametrize("ending", [Ending.REFUSED, Ending.TAMPERED])
def test_a_node_that_fails_a_gate_or_tampers_with_the_benchmark_is_rejected_whatever_its_score(bench, ending):
    run = start_run(bench, Objective(), Outcome(Ending.FINISHED, {"score": 1.0}))
    found = end_trial(run, Outcome(ending, {"score": 99.0}, reason="gate tests: exit code 1"))
    assert found.verdict is Verdict.REJECTED
    assert found.reason == "gate tests: exit code 1"
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == ROOT
