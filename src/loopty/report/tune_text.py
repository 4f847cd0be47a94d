"""Tune mode as text: how one node was tuned, and what the slice of a run is worth."""

from __future__ import annotations

from loopty.record.node_record import TunedParams
from loopty.report.columns import printable_line
from loopty.report.figures import duration, plural, three_digits
from loopty.views.slice_value import SliceValue


def tuned_text(tuned: TunedParams) -> str:
    """`16 tune trials on slice dev: 0.61 as proposed, 0.72 as promoted (all 16 … were made)`."""
    text = f"{plural(tuned.trials, 'tune trial')} on slice {printable_line(tuned.slice)}"
    if tuned.proposed_score is not None:
        text += f": {three_digits(tuned.proposed_score)} as proposed"
    if tuned.score is not None and tuned.proposed_score is not None:
        is_same = tuned.score == tuned.proposed_score
        text += ", nothing better found" if is_same else f", {three_digits(tuned.score)} as promoted"
    return f"{text} ({tuned.reason})"


def slice_text(value: SliceValue) -> str:
    """`slice dev: 12 nodes tuned, 9 of them changed, in 190 tune trials and 3 min; …`."""
    text = f"slice {printable_line(value.slice)}: {plural(value.tuned, 'node')} tuned"
    text += f", {value.moved:,} of them changed"
    text += f", in {plural(value.trials, 'tune trial')} and {duration(value.seconds)}"
    if value.share is not None:
        text += f"; a tune trial costs {100 * value.share:.2g} % of a trial"
    if found := value.prediction:
        text += (
            f"; rank correlation with the whole benchmark {found.value:.2f} (90 % interval {found.low:.2f} to "
            f"{found.high:.2f}, {plural(found.count, 'node')})"
        )
    return text
