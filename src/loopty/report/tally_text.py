"""Verdicts, uplift and the verifier's work, in words."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.outcome import Verdict
from loopty.record.node_record import Review
from loopty.report.columns import printable_line
from loopty.report.figures import percent, plural, rough_figure, three_digits
from loopty.report.node_name import node_name
from loopty.views.false_keeps import FalseKeeps
from loopty.views.uplift import Uplift
from loopty.views.verdict_tally import Tally, WithdrawnVerdict
from loopty.views.verifier_totals import VerifierTotals

_USUAL_VERDICTS = (Verdict.KEPT, Verdict.DISCARDED)


def uplift_text(uplift: Uplift) -> str:
    """`better than random, +0.3 in score over the control; 12 of 40 attempts above every control trial (…)`."""
    amount = f"{rough_figure(uplift.amount)} in {uplift.metric} over the best control trial, in this run"
    if uplift.chance is None:
        return f"{uplift.words}: {amount}, {plural(uplift.trials, 'trial')} each"
    if not uplift.ahead:
        return f"{uplift.words}, as far as {plural(uplift.trials, 'trial')} each can show: {amount}"
    side, other = ("attempt", "control trial") if uplift.ahead >= 0 else ("control trial", "attempt")
    ahead = f"{abs(uplift.ahead):,} of {plural(uplift.trials, side)} above every {other}"
    return f"{uplift.words}: {amount}; {ahead}, by luck alone in {_chance_text(uplift.chance)} of such runs"


def _chance_text(chance: float) -> str:
    return "less than 0.1 %" if chance < 0.001 else f"{percent(100 * chance)} %"


def false_keeps_text(found: FalseKeeps) -> str:
    """`3 of them kept in pairs; at most 1.2 expected to be luck`; empty where nothing was kept in pairs."""
    if not found.kept:
        return ""
    expected = three_digits(found.expected)
    return (
        f"{found.kept:,} of {found.compared:,} compared in pairs; at most {expected} of these expected to be luck"
    )


def verdicts_text(tally: Tally) -> str:
    """`4 kept, 9 discarded, 2 inconclusive; control 1 kept`; empty if all are kept or discarded."""
    if all(verdict in _USUAL_VERDICTS for verdict in (*tally.verdicts, *tally.control_verdicts)):
        return ""
    attempts, control = _counts_text(tally.verdicts) or "none yet", _counts_text(tally.control_verdicts)
    return f"{attempts}; control {control}" if control else attempts


def withdrawn_text(withdrawn: WithdrawnVerdict) -> str:
    """`1.2 was kept, is rejected: it reads the answers`."""
    was = f"was {withdrawn.before}, is {withdrawn.now}" if withdrawn.before else f"is {withdrawn.now}"
    return f"{node_name(withdrawn.node, withdrawn.handle)} {was}: {printable_line(withdrawn.why)}"


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
