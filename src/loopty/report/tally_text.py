"""What a look at every node tells, in words."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.outcome import Verdict
from loopty.report.figures import figure, plural, rough_figure
from loopty.views.uplift import Uplift, UpliftWords
from loopty.views.verdict_tally import Tally

_PLAIN = (Verdict.KEPT, Verdict.DISCARDED)


def uplift_text(uplift: Uplift) -> str:
    """`better than random, +0.3 in score over the control (95 %: +0.1 to +0.4), 40 trials each`."""
    amount, trials = f"{rough_figure(uplift.amount)} in {uplift.metric}", f"{plural(uplift.trials, 'trial')} each"
    interval = ""
    if uplift.low is not None and uplift.high is not None:
        interval = f" ({figure(100 * uplift.level)} %: {rough_figure(uplift.low)} to {rough_figure(uplift.high)})"
    if uplift.words is UpliftWords.NO_BETTER:
        return f"{uplift.words}, as far as {trials} can show: {amount}{interval}"
    return f"{uplift.words}, {amount} over the control{interval}, {trials}"


def verdicts_text(tally: Tally) -> str:
    """`4 kept, 9 discarded, 2 inconclusive; control 1 kept`, of attempts and of the control beside them.

    Nothing where there are no others than kept and discarded.
    """
    if all(verdict in _PLAIN for verdict in (*tally.verdicts, *tally.control_verdicts)):
        return ""
    attempts, control = _counts_text(tally.verdicts) or "none yet", _counts_text(tally.control_verdicts)
    return f"{attempts}; control {control}" if control else attempts


def _counts_text(verdicts: Mapping[Verdict, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
