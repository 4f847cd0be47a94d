"""What looks at a split say together."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool, Verdict
from loopty.kit import codec
from loopty.record.verdicts import Incumbents
from loopty.show.audits import audit_conclusion, audits

from .test_audit_rows import AuditedRun


def conclusion(run: AuditedRun):
    return audit_conclusion(1, audits(run.ledger.history(), list(run.ledger.read())))


def best_of(run: AuditedRun):
    return Incumbents.of(run.ledger.history().runs[1], Pool.ATTEMPT).best


def test_gains_that_carry_over_are_no_news():
    run = AuditedRun(0.5)
    first, second = run.tries(0.6), run.tries(0.7)
    for node, score in (("1", 0.4), (first, 0.5), (second, 0.6)):
        run.audits(node, score)
    assert (conclusion(run).refuted, conclusion(run).text) == ((), "")


def test_a_gain_that_the_split_does_not_show_is_refuted():
    run = AuditedRun(0.5)
    first, second = run.tries(0.6), run.tries(0.7)
    for node, score in (("1", 0.4), (first, 0.5), (second, 0.434217)):
        run.audits(node, score)
    found = conclusion(run)
    assert found.refuted == (second,)
    assert found.text == "the gain of @3 does not carry over to the held-out split"
    assert "434217" not in codec.text(found), "no score of the split"


def test_no_gain_at_all_carries_over():
    run = AuditedRun(0.5)
    first = run.tries(0.6)
    run.audits("1", 0.4)
    run.audits(first, 0.3)
    found = conclusion(run)
    assert (found.refuted, found.text) == ((first,), "the gain of @2 does not carry over to the held-out split")


def test_what_saw_the_split_cancels_nothing_that_was_found_about_another():
    run = AuditedRun(0.5)
    overfit, cheating = run.tries(0.6), run.tries(0.7)
    for node, score in (("1", 0.4), (overfit, 0.3), (cheating, 0.9)):
        run.audits(node, score)
    leaks = {NodeId(cheating): ["src/model.py quotes 1 line of the held-out answers.txt"]}
    assert audit_conclusion(1, run.rows(leaks)).refuted == (overfit,)
    run.audits(honest := run.tries(0.8), 0.5)
    found = audit_conclusion(1, run.rows(leaks))
    assert found.refuted == (overfit,), f"{honest} gains less on the split than what saw it, and still holds"


def test_after_an_audit_changes_are_judged_against_the_newest_node_that_holds():
    run = AuditedRun(0.5)
    honest, overfit = run.tries(0.6), run.tries(0.9)
    for node, score in (("1", 0.4), (honest, 0.5), (overfit, 0.3)):
        run.audits(node, score)
    for steers, best in ((False, overfit), (True, honest)):
        run.recorder.record(lambda _, steers=steers: [audit_conclusion(1, run.rows(), steers)])
        assert best_of(run) == best
    below = run.tries(1.0, above=overfit)
    assert run.ledger.history()[below].verdict is Verdict.KEPT
    assert best_of(run) == honest, "what was under way below the refuted node does not lead either"
    newer = run.tries(0.7)
    assert best_of(run) == newer


def test_without_a_baseline_on_the_split_nothing_is_concluded():
    run = AuditedRun(0.5)
    run.audits(run.tries(0.6), 0.3)
    assert (conclusion(run).refuted, conclusion(run).text) == ((), "")
