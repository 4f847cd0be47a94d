"""What a look at every node tells, in words."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.core.outcome import Verdict
from loopty.report.figures import figure, plural, roughly
from loopty.views.uplift import Uplift

_PLAIN = (Verdict.KEPT, Verdict.DISCARDED)


def uplift_text(uplift: Uplift) -> str:
    """`better than random, +0.3 in score over the control (95 %: +0.1 to +0.4), 40 trials each`."""
    text = f"{uplift.words}, {roughly(uplift.amount)} in {uplift.metric} over the control"
    if uplift.low is not None and uplift.high is not None:
        level = figure(100 * uplift.level)
        text += f" ({level} %: {roughly(uplift.low)} to {roughly(uplift.high)})"
    return f"{text}, {plural(uplift.trials, 'trial')} each"


def verdicts_text(verdicts: Mapping[Verdict, int]) -> str:
    """`4 kept, 9 discarded, 2 inconclusive`; nothing where there are no others than kept and discarded."""
    if all(verdict in _PLAIN for verdict in verdicts):
        return ""
    return ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
