"""Results per hour, and where the rest of the time went, as text."""

from __future__ import annotations

from loopty.report.columns import cut, wrap
from loopty.report.figures import duration, plural, three_digits
from loopty.report.terminal import Terminal
from loopty.views.goodput import Goodput, TrialCost

_NAMES = 20


def goodput_text(goodput: Goodput, columns: int = 80, look: Terminal | None = None) -> str:
    look = look or Terminal()
    lines = wrap(_headline(goodput), columns)
    if goodput.waste or goodput.refused:
        head = f"  {'wasted':<{_NAMES}}{'trials':>8}{'time':>14}{'share':>8}"
        lines.append(look.paint(cut(head, columns), "dim"))
    lines += [cut(_row(spent, goodput.busy_seconds), columns) for spent in goodput.waste]
    if goodput.refused:
        lines.append(cut(f"  {'refused proposals':<{_NAMES}}{goodput.refused:>8,}", columns))
    if goodput.telling_noise.trials:
        lines += wrap(_repeats_text(goodput), columns)
    return look.render("\n".join(lines))


def _headline(goodput: Goodput) -> str:
    text = f"{plural(goodput.results, 'comparable result')} in {duration(goodput.seconds)}"
    if goodput.per_hour is not None:
        text += f": {three_digits(goodput.per_hour)} per hour"
    if goodput.per_million_tokens is not None:
        text += f", {three_digits(goodput.per_million_tokens)} per million tokens"
    return text


def _row(spent: TrialCost, busy_seconds: float) -> str:
    share = _share(spent.seconds, busy_seconds)
    return f"  {spent.cause:<{_NAMES}}{spent.trials:>8,}{duration(spent.seconds):>14}{share:>8}"


def _repeats_text(goodput: Goodput) -> str:
    spent = goodput.telling_noise
    text = f"{spent.cause} took {plural(spent.trials, 'measurement')} and {duration(spent.seconds)}"
    text += f" ({_share(spent.seconds, goodput.busy_seconds)})"
    return f"{text}, {goodput.in_vain:,} of them for what was not kept" if goodput.in_vain else text


def _share(seconds: float, of: float) -> str:
    return f"{100 * seconds / of if of else 0:.0f} %"
