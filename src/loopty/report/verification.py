"""What the verifier did and said, in words."""

from __future__ import annotations

from loopty.record.node_record import Review
from loopty.report.figures import plural
from loopty.views.verifier_totals import VerifierTotals


def verifier_text(verified: VerifierTotals) -> str:
    """`6 winners reviewed, disagreed with the metric on 2 (1 rejected); 3 proposals screened out`."""
    parts = []
    if verified.reviews:
        parts.append(f"{plural(verified.reviews, 'winner')} reviewed")
    if verified.disagreements:
        rejected = f" ({verified.rejected:,} rejected)" if verified.rejected else ""
        parts.append(f"disagreed with the metric on {verified.disagreements:,}{rejected}")
    if verified.unreviewed:
        parts.append(f"{plural(verified.unreviewed, 'winner')} not reviewed")
    screened = f"{plural(verified.screened, 'proposal')} screened out" if verified.screened else ""
    return "; ".join(filter(None, (", ".join(parts), screened)))


def review_text(review: Review) -> str:
    """`passed: no rule is broken`, as one node's page shows it."""
    word = {True: "passed", False: "objected to", None: "not reviewed"}[review.passed]
    return f"{word}: {review.reason}" if review.reason else word
