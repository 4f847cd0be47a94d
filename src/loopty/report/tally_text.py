"""Verdicts, uplift and the verifier's work, in words."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.outcome import Verdict
from loopty.record.node_record import Review
from loopty.report.columns import printable_line
from loopty.report.figures import plural, rough_figure, three_digits
from loopty.report.node_name import node_name
from loopty.views.false_keeps import FalseKeeps
from loopty.views.uplift import Uplift, UpliftWords
from loopty.views.verdict_tally import Tally, WithdrawnVerdict
from loopty.views.verifier_totals import VerifierTotals

_USUAL_VERDICTS = (Verdict.KEPT, Verdict.DISCARDED)


def uplift_text(uplift: Uplift) -> str:
    """`24 attempts against 8 random trials: +0.3 in score, significant (p = 0.01)`."""
    pools = f"{plural(uplift.attempts, 'attempt')} against {plural(uplift.control, 'random trial')}"
    difference = rough_figure(uplift.amount) if uplift.amount else "no difference"
    amount = f"{pools}: {difference} in {uplift.metric}, best against best"
    if uplift.chance is None:
        return f"{amount}; {uplift.words}"
    chance = "< 0.001" if uplift.chance < 0.001 else f"= {three_digits(uplift.chance)}"
    is_significant = uplift.words in (UpliftWords.BETTER, UpliftWords.WORSE)
    found = f"{uplift.words}" if is_significant else "not significant"
    return f"{amount}; {found} (p {chance})"


def false_keeps_text(found: FalseKeeps) -> str:
    """`3 of them kept in pairs; at most 1.2 expected to be false`; empty where nothing was kept in pairs."""
    if not found.kept:
        return ""
    expected = three_digits(found.expected)
    return f"{found.kept:,} of {found.compared:,} compared in pairs; at most {expected} expected to be false"


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
    """`6 winners reviewed, disagreed with the metric on 2 (1 rejected)`."""
    parts = []
    if totals.reviews:
        parts.append(f"{plural(totals.reviews, 'winner')} reviewed")
    if totals.disagreements:
        rejected = f" ({totals.rejected:,} rejected)" if totals.rejected else ""
        parts.append(f"disagreed with the metric on {totals.disagreements:,}{rejected}")
    if totals.unreviewed:
        parts.append(f"{plural(totals.unreviewed, 'winner')} not reviewed")
    return ", ".join(parts)


def review_text(review: Review) -> str:
    """`passed: no rule is broken`, for the page of one node."""
    word = {True: "passed", False: "objected to", None: "not reviewed"}[review.passed]
    return f"{word}: {review.reason}" if review.reason else word


def _counts_text(verdicts: Mapping[Verdict, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
