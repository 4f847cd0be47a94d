"""Audit results: gains that survive, gains that do not, and what looks wrong."""

from __future__ import annotations

import hashlib

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.judge.tuning import Judging
from loopty.kit import codec
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.history import History
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.show.audits import AuditRow, Suspicion, audits

OWNER = "host:4711:99"


class AuditedRun:
    """A run whose nodes have a score in the search and, if audited, one on the held-out split."""

    def __init__(self, *baseline: float, objective: Objective | None = None, **more: float) -> None:
        self.ledger = MemoryLedger()
        self.now = 1000.0
        self.recorder = Recorder(self.ledger, self._tick)
        self._record(RunStarted(1, "c0ffee", objective or Objective(), 7, "the first run"))
        self._record(NodeAdded(NodeId("1"), Pool.ATTEMPT, "baseline", "", "a" * 40, "f0" * 20))
        self._record_score(NodeId("1"), {"score": baseline[0], **more})
        for score in baseline[1:]:
            self._record(TrialStarted(NodeId("1"), self._next("1"), Pool.REPEAT, OWNER, NodeId("1")))
            outcome = Outcome(Ending.FINISHED, {"score": score})
            self._record(TrialEnded(NodeId("1"), self.recorder.history[NodeId("1")].trials, outcome))
        self._record(NodeJudged(NodeId("1"), Verdict.KEPT, "the first result"))

    def tries(self, score: float, above: str = "1", **metrics: float) -> str:
        node = NodeId(above).child(self.recorder.history[NodeId(above)].children + 1)
        self._record(
            NodeAdded(node, Pool.ATTEMPT, "rewrite", "a change", "b" * 40, hashlib.sha1(node.encode()).hexdigest())
        )
        self._record_score(node, {"score": score, **metrics})
        rival = Incumbents.of(self.recorder.history.runs[1], Pool.ATTEMPT).best
        self._record(NodeJudged(node, Verdict.KEPT, "better", against=rival))
        return str(node)

    def audits(self, node: str, score: float | None, split: str = "s1", machine: str = "", **more: float) -> None:
        """One look; None as score is a failure."""
        outcome = Outcome(Ending.FAILED, reason="exit code 1", fingerprint=machine)
        if score is not None:
            outcome = Outcome(Ending.FINISHED, {"score": score, **more}, fingerprint=machine)
        number = self._next(node)
        self.recorder.record(lambda history: decisions.start_audit(history, NodeId(node), OWNER, split))
        self.recorder.record(
            lambda history: decisions.end_trial(history, NodeId(node), number, outcome, Judging(Pools(), Noise()))
        )

    def rows(self, leaks: dict[NodeId, list[str]] | None = None) -> list[AuditRow]:
        return audits(self.ledger.history(), self.ledger.read(), leaks)

    def _record_score(self, node: NodeId, metrics: dict[str, float]) -> None:
        self._record(TrialStarted(node, self._next(node), Pool.ATTEMPT, OWNER))
        self._record(TrialEnded(node, self.recorder.history[node].trials, Outcome(Ending.FINISHED, metrics)))

    def _next(self, node: str) -> int:
        return self.recorder.history[NodeId(node)].trials + 1

    def _record(self, event) -> None:
        self.recorder.record(lambda _: [event])

    def _tick(self) -> float:
        self.now += 1.0
        return self.now


def kinds(row: AuditRow) -> list[Suspicion]:
    return [flag.kind for flag in row.flags]


def test_a_gain_that_survives_is_reported_with_its_gap_and_no_flag():
    run = AuditedRun(0.5)
    better = run.tries(0.9)
    run.audits("1", 0.4)
    run.audits(better, 0.7)
    baseline, row = run.rows()
    assert (baseline.search, baseline.held_out, baseline.search_gain, baseline.held_out_gain) == (
        0.5,
        0.4,
        None,
        None,
    )
    assert row.search_gain == pytest.approx(0.4)
    assert row.held_out_gain == pytest.approx(0.3)
    assert row.gap == pytest.approx(0.1)
    assert row.survives == pytest.approx(0.75 * 0.5 / 0.4)
    assert baseline.flags == row.flags == ()
    assert [baseline.look, row.look] == [1, 2]
    assert row.at > baseline.at


@pytest.mark.parametrize("held_out", [0.4, 0.35])
def test_a_gain_that_the_held_out_split_does_not_show_is_overfitting(held_out):
    run = AuditedRun(0.5)
    memorised = run.tries(0.9)
    run.audits("1", 0.4)
    run.audits(memorised, held_out)
    row = run.rows()[-1]
    assert kinds(row) == [Suspicion.OVERFITTING]
    assert row.survives == 0
    assert "in the search" in row.flags[0].words


def test_less_than_half_of_a_gain_is_overfitting_and_more_is_not():
    run = AuditedRun(0.5)
    one, other = run.tries(0.9), run.tries(0.91)
    run.audits("1", 0.5)
    run.audits(one, 0.6)
    run.audits(other, 0.75)
    _, overfit, fine = run.rows()
    assert kinds(overfit) == [Suspicion.OVERFITTING]
    assert "25 %" in overfit.flags[0].words
    assert fine.flags == ()


def test_a_shortfall_within_the_noise_is_not_overfitting():
    run = AuditedRun(10.0, 10.5, 9.5, 10.2, 9.8)
    better = run.tries(11.0)
    run.audits("1", 10.0)
    run.audits(better, 10.45)
    assert run.rows()[-1].survives < 0.5
    assert run.rows()[-1].flags == ()


def test_lower_is_better_if_the_objective_says_so():
    run = AuditedRun(10.0, objective=Objective(Direction.MIN))
    faster = run.tries(4.0)
    run.audits("1", 20.0)
    run.audits(faster, 21.0)
    row = run.rows()[-1]
    assert (row.search_gain, row.held_out_gain) == (6.0, -1.0)
    assert kinds(row) == [Suspicion.OVERFITTING]


def test_a_split_of_another_size_is_compared_relative_to_its_baseline():
    run = AuditedRun(10.0, objective=Objective(Direction.MIN))
    faster = run.tries(5.0)
    run.audits("1", 1.0)
    run.audits(faster, 0.5)
    row = run.rows()[-1]
    assert row.survives == pytest.approx(1.0)
    assert row.flags == ()


def test_the_deciding_metric_is_the_one_compared():
    objective = Objective(metrics=(Metric("score"), Metric("size", Direction.MIN)))
    run = AuditedRun(1.0, objective=objective, size=8.0)
    smaller = run.tries(1.0, size=4.0)
    run.audits("1", 1.0, size=9.0)
    run.audits(smaller, 1.0, size=9.5)
    row = run.rows()[-1]
    assert (row.metric, row.search_gain, row.held_out_gain) == ("size", 4.0, -0.5)
    assert kinds(row) == [Suspicion.OVERFITTING]


def test_a_weighted_sum_is_compared_as_a_sum():
    objective = Objective(metrics=(Metric("score", weight=2.0),))
    run = AuditedRun(1.0, objective=objective)
    better = run.tries(3.0)
    run.audits("1", 1.5)
    run.audits(better, 2.5)
    row = run.rows()[-1]
    assert (row.metric, row.search, row.search_gain, row.held_out_gain) == ("", 6.0, 4.0, 2.0)


def test_a_rising_search_score_with_a_falling_held_out_score_is_drift():
    run = AuditedRun(0.5)
    first, second, third = run.tries(0.6), run.tries(0.7), run.tries(0.8)
    run.audits("1", 0.41)
    run.audits(first, 0.55)
    run.audits(second, 0.62)
    run.audits(third, 0.57)
    *before, last = run.rows()
    assert all(Suspicion.DRIFT not in kinds(row) for row in before)
    drift = next(flag for flag in last.flags if flag.kind is Suspicion.DRIFT)
    assert drift.words.startswith("since @3 ")


def test_audits_on_different_splits_are_never_compared():
    run = AuditedRun(0.5)
    first, second = run.tries(0.6), run.tries(0.7)
    run.audits("1", 0.4, split="old")
    run.audits(first, 0.9, split="old")
    run.audits(second, 0.41, split="new")
    row = run.rows()[-1]
    assert (row.held_out, row.held_out_gain, row.survives, row.look) == (0.41, None, None, 1)
    assert kinds(row) == [Suspicion.SPLIT]


def test_audits_on_different_machines_are_never_compared():
    run = AuditedRun(0.5)
    first, second = run.tries(0.6), run.tries(0.7)
    run.audits("1", 0.4, machine="here")
    run.audits(first, 0.9, machine="here")
    run.audits(second, 0.41, machine="there")
    row = run.rows()[-1]
    assert row.held_out_gain is None
    assert row.flags == ()


def test_the_same_score_on_both_splits_is_contamination():
    run = AuditedRun(0.5)
    better = run.tries(0.7312)
    run.audits("1", 0.4)
    run.audits(better, 0.7312)
    assert kinds(run.rows()[-1]) == [Suspicion.CONTAMINATION]


def test_a_perfect_score_on_both_splits_is_no_contamination():
    run = AuditedRun(0.5)
    better = run.tries(1.0)
    run.audits("1", 0.4)
    run.audits(better, 1.0)
    assert run.rows()[-1].flags == ()


def test_a_leak_of_the_split_is_flagged_on_its_node():
    run = AuditedRun(0.5)
    better = run.tries(0.9)
    run.audits("1", 0.4)
    run.audits(better, 0.8)
    rows = run.rows({NodeId(better): ["model.py quotes 3 lines of the held-out test.csv"]})
    assert rows[0].flags == ()
    assert kinds(rows[1]) == [Suspicion.CONTAMINATION]


def test_every_look_counts_even_if_it_failed_or_was_lost():
    run = AuditedRun(0.5)
    run.audits("1", None)
    run.recorder.record(lambda history: decisions.start_audit(history, NodeId("1"), OWNER, "s1"))
    running = run.rows()[-1]
    run.recorder.record(lambda history: decisions.close_abandoned(history, lambda _: False))
    run.audits("1", 0.4)
    failed, lost, found = run.rows()
    assert [failed.look, lost.look, found.look] == [1, 2, 3]
    assert running.ended == "still running"
    assert failed.ended == "failed: exit code 1"
    assert "counts as a look" in lost.ended
    assert found.ended == ""
    assert lost.held_out is None


def test_a_result_without_the_searchs_metric_has_no_score():
    run = AuditedRun(0.5)
    run.recorder.record(lambda history: decisions.start_audit(history, NodeId("1"), OWNER, "s1"))
    odd = Outcome(Ending.FINISHED, {"accuracy": 0.4})
    number = run.recorder.history[NodeId("1")].trials
    judging = Judging(Pools(), Noise())
    run.recorder.record(lambda history: decisions.end_trial(history, NodeId("1"), number, odd, judging))
    (row,) = run.rows()
    assert row.held_out is None
    assert row.ended == "did not report score, which the search compares"


def test_the_history_contains_no_audit_result():
    run = AuditedRun(0.5)
    better = run.tries(0.9)
    run.audits("1", 0.123456)
    run.audits(better, 0.654321)
    history: History = run.ledger.history()
    pages = [history.body(node) for node in history.ids] + [codec.text(run) for run in history.runs.values()]
    assert not any("123456" in page or "654321" in page for page in pages)
    assert history[NodeId(better)].outcome.metrics == {"score": 0.9}
