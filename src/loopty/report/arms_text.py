"""A comparison of arms as text: pooled, then by task; each arm against the first."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.report.columns import cut, pad, width
from loopty.report.terminal import Terminal
from loopty.views.arm_comparison import FEWEST_PAIRS, ArmRow, Difference

_HEAD = ("arm", "area", "final", "area over the first", "final over the first")


def arms_text(head: str, rows: Sequence[ArmRow], columns: int = 80, terminal: Terminal | None = None) -> str:
    """The rows of a comparison below a line that says what was compared."""
    terminal = terminal or Terminal()
    lines = [terminal.paint(cut(head, columns), "strong")]
    for task in dict.fromkeys(row.task for row in rows):
        own = [row for row in rows if row.task == task]
        cells = [(task or _HEAD[0], *_HEAD[1:]), *(_cells(row, row is own[0]) for row in own)]
        widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
        widths[0] = min(widths[0], max(columns - 2 - sum(one + 2 for one in widths[1:]), 8))
        table = [cut(_line(row, widths), columns) for row in cells]
        lines += ["", terminal.paint(table[0], "dim"), *table[1:]]
    lines += ["", "  shares of the largest gain on a task; [95 % interval] of paired differences,"]
    lines += [f"  from {FEWEST_PAIRS} pairs on; * excludes zero"]
    return terminal.render("\n".join(lines))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (pad(cell, size, right=at > 0) for at, (cell, size) in enumerate(zip(cells, widths, strict=True)))
    return "  " + "  ".join(padded)


def _cells(row: ArmRow, is_first: bool) -> tuple[str, ...]:
    over = ("", "") if is_first else (_difference(row.area_over_first), _difference(row.final_over_first))
    return row.arm, f"{row.area:.3f}", f"{row.final:.3f}", *over


def _difference(found: Difference) -> str:
    if found.low is None or found.high is None:
        return f"{found.mean:+.3f} ({found.pairs})"
    return f"{found.mean:+.3f} [{found.low:+.2f}, {found.high:+.2f}]{'*' if found.is_sure else ''}"
