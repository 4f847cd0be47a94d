"""What audits found: gains that survive, gains that do not, and what looks wrong."""

from __future__ import annotations

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.outcome import Ending, Outcome, Verdict
from loopty.domain.pool import Pool
from loopty.domain.task import Noise, Pools
from loopty.engine import decisions
from loopty.engine.decisions import Judging
from loopty.kit import codec
from loopty.ledgers.memory import MemoryLedger
from loopty.record.history import History
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.runs import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.views.audit_rows import AuditRow, Suspicion, audits

OWNER = "host:4711:99"


class Tale:
    """A run whose nodes have a score for the search and, where they were audited, one on the held-out split."""

    def __init__(self, *baseline: float, objective: Objective | None = None, **more: float) -> None:
        self.ledger = MemoryLedger()
        self.now = 1000.0
        self.recorder = Recorder(self.ledger, self._tick)
        self._tell(RunStarted(1, "c0ffee", objective or Objective(), 7, "the first run"))
        self._tell(NodeAdded(NodeId("1"), Pool.ATTEMPT, "baseline", "", "a" * 40, "t0"))
        self._measured(NodeId("1"), {"score": baseline[0], **more})
        for score in baseline[1:]:
            self._tell(TrialStarted(NodeId("1"), self._next("1"), Pool.REPEAT, OWNER, NodeId("1")))
            outcome = Outcome(Ending.FINISHED, {"score": score})
            self._tell(TrialEnded(NodeId("1"), self.recorder.history[NodeId("1")].trials, outcome))
        self._tell(NodeJudged(NodeId("1"), Verdict.KEPT, "the first result"))

    def tries(self, score: float, **metrics: float) -> str:
        node = NodeId("1").child(self.recorder.history[NodeId("1")].children + 1)
        self._tell(NodeAdded(node, Pool.ATTEMPT, "rewrite", "a change", "b" * 40, f"tree of {node}"))
        self._measured(node, {"score": score, **metrics})
        self._tell(NodeJudged(node, Verdict.KEPT, "better"))
        return str(node)

    def audits(self, node: str, score: float | None, split: str = "s1", machine: str = "", **more: float) -> None:
        """One look; no score is a failure."""
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

    def _measured(self, node: NodeId, metrics: dict[str, float]) -> None:
        self._tell(TrialStarted(node, self._next(node), Pool.ATTEMPT, OWNER))
        self._tell(TrialEnded(node, self.recorder.history[node].trials, Outcome(Ending.FINISHED, metrics)))

    def _next(self, node: str) -> int:
        return self.recorder.history[NodeId(node)].trials + 1

    def _tell(self, event) -> None:
        self.recorder.record(lambda _: [event])

    def _tick(self) -> float:
        self.now += 1.0
        return self.now


def kinds(row: AuditRow) -> list[Suspicion]:
    return [flag.kind for flag in row.flags]


def test_a_gain_that_survives_is_reported_with_its_gap_and_no_flag():
    tale = Tale(0.5)
    better = tale.tries(0.9)
    tale.audits("1", 0.4)
    tale.audits(better, 0.7)
    baseline, row = tale.rows()
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
def test_a_gain_that_is_none_on_the_held_out_split_is_overfitting(held_out):
    tale = Tale(0.5)
    memorised = tale.tries(0.9)
    tale.audits("1", 0.4)
    tale.audits(memorised, held_out)
    row = tale.rows()[-1]
    assert kinds(row) == [Suspicion.OVERFITTING]
    assert row.survives == 0
    assert "for the search" in row.flags[0].words


def test_less_than_half_of_a_gain_is_overfitting_and_more_is_not():
    tale = Tale(0.5)
    one, other = tale.tries(0.9), tale.tries(0.91)
    tale.audits("1", 0.5)
    tale.audits(one, 0.6)
    tale.audits(other, 0.75)
    _, less, more = tale.rows()
    assert kinds(less) == [Suspicion.OVERFITTING]
    assert "25 %" in less.flags[0].words
    assert more.flags == ()


def test_a_shortfall_within_the_noise_is_not_overfitting():
    tale = Tale(10.0, 10.5, 9.5, 10.2, 9.8)
    better = tale.tries(11.0)
    tale.audits("1", 10.0)
    tale.audits(better, 10.45)
    assert tale.rows()[-1].survives < 0.5
    assert tale.rows()[-1].flags == ()


def test_less_is_better_where_the_objective_says_so():
    tale = Tale(10.0, objective=Objective(Direction.MIN))
    faster = tale.tries(4.0)
    tale.audits("1", 20.0)
    tale.audits(faster, 21.0)
    row = tale.rows()[-1]
    assert (row.search_gain, row.held_out_gain) == (6.0, -1.0)
    assert kinds(row) == [Suspicion.OVERFITTING]


def test_a_split_of_another_size_is_compared_relative_to_its_baseline():
    tale = Tale(10.0, objective=Objective(Direction.MIN))
    faster = tale.tries(5.0)
    tale.audits("1", 1.0)
    tale.audits(faster, 0.5)
    row = tale.rows()[-1]
    assert row.survives == pytest.approx(1.0)
    assert row.flags == ()


def test_the_metric_that_decided_is_the_one_that_is_compared():
    objective = Objective(metrics=(Metric("score"), Metric("size", Direction.MIN)))
    tale = Tale(1.0, objective=objective, size=8.0)
    smaller = tale.tries(1.0, size=4.0)
    tale.audits("1", 1.0, size=9.0)
    tale.audits(smaller, 1.0, size=9.5)
    row = tale.rows()[-1]
    assert (row.metric, row.search_gain, row.held_out_gain) == ("size", 4.0, -0.5)
    assert kinds(row) == [Suspicion.OVERFITTING]


def test_a_weighted_sum_is_compared_as_a_sum():
    objective = Objective(metrics=(Metric("score", weight=2.0),))
    tale = Tale(1.0, objective=objective)
    better = tale.tries(3.0)
    tale.audits("1", 1.5)
    tale.audits(better, 2.5)
    row = tale.rows()[-1]
    assert (row.metric, row.search, row.search_gain, row.held_out_gain) == ("", 6.0, 4.0, 2.0)


def test_a_search_that_rises_while_the_held_out_score_falls_is_drift():
    tale = Tale(0.5)
    first, second, third = tale.tries(0.6), tale.tries(0.7), tale.tries(0.8)
    tale.audits("1", 0.41)
    tale.audits(first, 0.55)
    tale.audits(second, 0.62)
    tale.audits(third, 0.57)
    *before, last = tale.rows()
    assert all(Suspicion.DRIFT not in kinds(row) for row in before)
    drift = next(flag for flag in last.flags if flag.kind is Suspicion.DRIFT)
    assert drift.words.startswith(f"since {second} ")


def test_audits_on_different_splits_are_never_compared():
    tale = Tale(0.5)
    first, second = tale.tries(0.6), tale.tries(0.7)
    tale.audits("1", 0.4, split="old")
    tale.audits(first, 0.9, split="old")
    tale.audits(second, 0.41, split="new")
    row = tale.rows()[-1]
    assert (row.held_out, row.held_out_gain, row.survives, row.look) == (0.41, None, None, 1)
    assert kinds(row) == [Suspicion.SPLIT]


def test_audits_on_different_machines_are_never_compared():
    tale = Tale(0.5)
    first, second = tale.tries(0.6), tale.tries(0.7)
    tale.audits("1", 0.4, machine="here")
    tale.audits(first, 0.9, machine="here")
    tale.audits(second, 0.41, machine="there")
    row = tale.rows()[-1]
    assert row.held_out_gain is None
    assert row.flags == ()


def test_the_very_same_score_on_both_splits_is_contamination():
    tale = Tale(0.5)
    better = tale.tries(0.7312)
    tale.audits("1", 0.4)
    tale.audits(better, 0.7312)
    assert kinds(tale.rows()[-1]) == [Suspicion.CONTAMINATION]


def test_a_perfect_score_on_both_splits_is_no_contamination():
    tale = Tale(0.5)
    better = tale.tries(1.0)
    tale.audits("1", 0.4)
    tale.audits(better, 1.0)
    assert tale.rows()[-1].flags == ()


def test_where_the_search_could_see_the_split_the_sentence_is_on_the_node():
    tale = Tale(0.5)
    better = tale.tries(0.9)
    tale.audits("1", 0.4)
    tale.audits(better, 0.8)
    rows = tale.rows({NodeId(better): ["model.py quotes 3 lines of the held-out test.csv"]})
    assert rows[0].flags == ()
    assert kinds(rows[1]) == [Suspicion.CONTAMINATION]


def test_every_look_counts_also_one_that_failed_or_was_lost():
    tale = Tale(0.5)
    tale.audits("1", None)
    tale.recorder.record(lambda history: decisions.start_audit(history, NodeId("1"), OWNER, "s1"))
    running = tale.rows()[-1]
    tale.recorder.record(lambda history: decisions.close_abandoned(history, lambda _: False))
    tale.audits("1", 0.4)
    failed, lost, found = tale.rows()
    assert [failed.look, lost.look, found.look] == [1, 2, 3]
    assert running.ended == "still running"
    assert failed.ended == "failed: exit code 1"
    assert "counts as a look" in lost.ended
    assert found.ended == ""
    assert lost.held_out is None


def test_a_result_without_the_metric_of_the_search_is_no_score():
    tale = Tale(0.5)
    tale.recorder.record(lambda history: decisions.start_audit(history, NodeId("1"), OWNER, "s1"))
    odd = Outcome(Ending.FINISHED, {"accuracy": 0.4})
    number = tale.recorder.history[NodeId("1")].trials
    judging = Judging(Pools(), Noise())
    tale.recorder.record(lambda history: decisions.end_trial(history, NodeId("1"), number, odd, judging))
    (row,) = tale.rows()
    assert row.held_out is None
    assert row.ended == "did not report score, by which the search compares"


def test_the_history_holds_nothing_that_an_audit_found():
    tale = Tale(0.5)
    better = tale.tries(0.9)
    tale.audits("1", 0.123456)
    tale.audits(better, 0.654321)
    history: History = tale.ledger.history()
    pages = [history.page(node) for node in history.ids] + [codec.text(run) for run in history.runs.values()]
    assert not any("123456" in page or "654321" in page for page in pages)
    assert history[NodeId(better)].outcome.metrics == {"score": 0.9}
