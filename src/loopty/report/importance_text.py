"""How much each parameter matters, as text."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.report.columns import pad
from loopty.report.figures import plural
from loopty.report.terminal import Terminal
from loopty.views.parameter_importance import ParameterImportance

_MOST_ROWS = 10
_NAMES = 20
_BAR = 30


def importance_text(
    importance: Sequence[ParameterImportance], columns: int = 80, terminal: Terminal | None = None
) -> str:
    """One line for each of the most important parameters; empty where nothing is known."""
    terminal = terminal or Terminal()
    if not importance:
        return ""
    most = max(each.trials for each in importance)
    head = f"what the score depends on: share of the differences in rank, {plural(most, 'trial')}"
    lines = [terminal.paint(pad(head, columns).rstrip(), "dim")]
    for each in importance[:_MOST_ROWS]:
        note = f"  where it applies: {plural(each.trials, 'trial')}" if each.trials < most else ""
        bar = "█" * round(_BAR * each.share)
        line = f"  {pad(each.name, _NAMES)}{100 * each.share:>4.0f} %  {bar}{note}"
        lines.append(pad(line, columns).rstrip())
    if len(importance) > _MOST_ROWS:
        lines.append(f"  and {plural(len(importance) - _MOST_ROWS, 'other parameter')}")
    return terminal.render("\n".join(lines))
