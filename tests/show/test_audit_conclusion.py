"""What looks at a split say together."""

from __future__ import annotations

from loopty.kit import codec
from loopty.show.audits import audit_conclusion, audits

from .test_audit_rows import AuditedRun


def conclusion(run: AuditedRun):
    return audit_conclusion(1, audits(run.ledger.history(), list(run.ledger.read())))


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
    assert found.text.startswith("gains stopped carrying over to the held-out split after @2: @3 gains")
    assert "434217" not in codec.text(found), "no score of the split"


def test_no_gain_at_all_carries_over():
    run = AuditedRun(0.5)
    first = run.tries(0.6)
    run.audits("1", 0.4)
    run.audits(first, 0.3)
    assert conclusion(run).text.startswith("no gain carries over")


def test_without_a_baseline_on_the_split_nothing_is_concluded():
    run = AuditedRun(0.5)
    run.audits(run.tries(0.6), 0.3)
    assert (conclusion(run).refuted, conclusion(run).text) == ((), "")
