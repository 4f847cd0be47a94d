"""Verdicts, uplift and the verifier's work, in words."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.outcome import Verdict
from loopty.record.node_record import Review
from loopty.report.figures import figure, plural, rough_figure
from loopty.views.uplift import Uplift, UpliftWords
from loopty.views.verdict_tally import Tally
from loopty.views.verifier_totals import VerifierTotals

_USUAL_VERDICTS = (Verdict.KEPT, Verdict.DISCARDED)


def uplift_text(uplift: Uplift) -> str:
    """`better than random, +0.3 in score over the control (95 % interval +0.1 to +0.4), 40 trials each`."""
    amount, trials = f"{rough_figure(uplift.amount)} in {uplift.metric}", f"{plural(uplift.trials, 'trial')} each"
    interval = ""
    if uplift.low is not None and uplift.high is not None:
        level, low, high = figure(100 * uplift.level), rough_figure(uplift.low), rough_figure(uplift.high)
        interval = f" ({level} % interval {low} to {high})"
    if uplift.words is UpliftWords.NO_BETTER:
        return f"{uplift.words}, as far as {trials} can show: {amount}{interval}"
    return f"{uplift.words}, {amount} over the control{interval}, {trials}"


def verdicts_text(tally: Tally) -> str:
    """`4 kept, 9 discarded, 2 inconclusive; control 1 kept`; empty if all are kept or discarded."""
    if all(verdict in _USUAL_VERDICTS for verdict in (*tally.verdicts, *tally.control_verdicts)):
        return ""
    attempts, control = _counts_text(tally.verdicts) or "none yet", _counts_text(tally.control_verdicts)
    return f"{attempts}; control {control}" if control else attempts


def verifier_text(totals: VerifierTotals) -> str:
    """`6 winners reviewed, disagreed with the metric on 2 (1 rejected); 3 proposals screened out`."""
    parts = []
    if totals.reviews:
        parts.append(f"{plural(totals.reviews, 'winner')} reviewed")
    if totals.disagreements:
        rejected = f" ({totals.rejected:,} rejected)" if totals.rejected else ""
        parts.append(f"disagreed with the metric on {totals.disagreements:,}{rejected}")
    if totals.unreviewed:
        parts.append(f"{plural(totals.unreviewed, 'winner')} not reviewed")
    screened = f"{plural(totals.screened, 'proposal')} screened out" if totals.screened else ""
    return "; ".join(filter(None, (", ".join(parts), screened)))


def review_text(review: Review) -> str:
    """`passed: no rule is broken`, for the page of one node."""
    word = {True: "passed", False: "objected to", None: "not reviewed"}[review.passed]
    return f"{word}: {review.reason}" if review.reason else word


def _counts_text(verdicts: Mapping[Verdict, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
