"""Results per hour, and the time without results, as text."""

from __future__ import annotations

from loopty.report.cascade_text import stage_text
from loopty.report.columns import cut, wrap
from loopty.report.figures import duration, plural, three_digits
from loopty.report.terminal import Terminal
from loopty.report.tune_text import slice_text
from loopty.views.goodput import Goodput, TrialCost

_NAMES = 20


def goodput_text(goodput: Goodput, columns: int = 80, terminal: Terminal | None = None) -> str:
    terminal = terminal or Terminal()
    lines = wrap(_headline(goodput), columns)
    if goodput.waste or goodput.refused:
        head = f"  {'wasted':<{_NAMES}}{'trials':>8}{'time':>14}{'share':>8}"
        lines.append(terminal.paint(cut(head, columns), "dim"))
    lines += [cut(_row(cost, goodput.busy_seconds), columns) for cost in goodput.waste]
    if goodput.refused:
        lines.append(cut(f"  {'refused proposals':<{_NAMES}}{goodput.refused:>8,}", columns))
    for stage in goodput.cascade:
        lines += wrap(stage_text(stage), columns)
    if goodput.tuning:
        lines += wrap(slice_text(goodput.tuning), columns)
        lines += wrap(goodput.tuning.advice, columns) if goodput.tuning.advice else []
    if goodput.repeats.trials:
        lines += wrap(_repeats_text(goodput), columns)
    if busy := _slots_text(goodput):
        lines += wrap(busy, columns)
    return terminal.render("\n".join(lines))


def _headline(goodput: Goodput) -> str:
    text = f"{plural(goodput.results, 'comparable result')} in {duration(goodput.seconds)}"
    if goodput.per_hour is not None:
        text += f": {three_digits(goodput.per_hour)} per hour"
    if goodput.per_million_tokens is not None:
        text += f", {three_digits(goodput.per_million_tokens)} per million tokens"
    return text


def _row(cost: TrialCost, busy_seconds: float) -> str:
    share = _share(cost.seconds, busy_seconds)
    return f"  {cost.cause:<{_NAMES}}{cost.trials:>8,}{duration(cost.seconds):>14}{share:>8}"


def _repeats_text(goodput: Goodput) -> str:
    """`53 repeat measurements took 63 s (79 %); 8 for candidates that were not kept`."""
    repeats = goodput.repeats
    share = _share(repeats.seconds, goodput.busy_seconds)
    text = f"{plural(repeats.trials, 'repeat measurement')} took {duration(repeats.seconds)} ({share})"
    return (
        f"{text}; {goodput.repeats_of_discarded:,} for candidates that were not kept"
        if goodput.repeats_of_discarded
        else text
    )


def _slots_text(goodput: Goodput) -> str:
    """`trial slots were busy 93 % of the time, model slots 88 %`, where a model proposes."""
    if goodput.model_slots_busy is None or goodput.trial_slots_busy is None:
        return ""
    trials, models = goodput.trial_slots_busy, goodput.model_slots_busy
    return f"trial slots were busy {100 * trials:.0f} % of the time, model slots {100 * models:.0f} %"


def _share(seconds: float, total: float) -> str:
    return f"{100 * seconds / total if total else 0:.0f} %"
