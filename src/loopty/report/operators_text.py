"""What operators, models and kinds of changes did, as text: one line each, the most credit first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.record.search_learning import SearchLearning
from loopty.report.columns import Fact, cut, fact_lines, pad, width
from loopty.report.figures import dollars, plural, rough_figure
from loopty.report.terminal import Terminal
from loopty.views.operator_rows import PERIODS, OperatorReport, OperatorRow

_HEAD = ("asked", "ref", "fail", "kept", "credit", "gain", "cost", "credit over time")
_DROPPED_FIRST = (2, 3, 6, 7)
"""Columns that a narrow terminal drops, in this order."""
_NARROWEST_NAME = 16
_MAX_ROWS = 24


def operators_text(report: OperatorReport, columns: int = 80, terminal: Terminal | None = None) -> str:
    """The arms of a run, the kinds of changes by their tags, and how different the newest changes are."""
    terminal = terminal or Terminal()
    if not report.rows:
        return terminal.render(f"run {report.run} has no proposal yet: start with `loopty optimize`")
    lines = [terminal.paint(f"run {report.run}, {report.pool}s", "strong")]
    lines += _table("operator, model", report.rows, columns, terminal)
    lines += _table("kind", report.kinds, columns, terminal)
    lines += ["", *fact_lines(_facts(report), columns, terminal)]
    return terminal.render("\n".join(lines))


def _facts(report: OperatorReport) -> Iterator[Fact]:
    found = report.diversity
    text = f"{found.bits:.1f} of {found.most_bits:.1f} bits in the newest {plural(found.changes, 'change')}"
    if found.is_low:
        text += ": most change the same place in the same way; try other `parents`, or `loopty direct`"
    yield Fact("diversity", text, "warn" if found.is_low else "")
    for model, forms in report.forms.items():
        counts = (f"{name} {count.usable} of {count.asked}" for name, count in sorted(forms.items()))
        yield Fact("replies", f"{model}: usable in the form {'; '.join(counts)}")
    if report.learning:
        yield from _learning_facts(report.learning)
    yield Fact("credit", "1/place among the best 8 when judged, for each proposal; 0 below the baseline")
    yield Fact("gain", "mean over the parents, positive is better")


def _learning_facts(learning: SearchLearning) -> Iterator[Fact]:
    config = learning.config
    yield Fact(
        "search",
        f"move {learning.number}: exploration from {100 * config.exploration:.0f} % on, drafts "
        f"{100 * config.drafts:.0f} %, restart after {config.restart}, batch {config.batch}; signal of "
        f"improvement {learning.signal:.2f} after {plural(learning.dry, 'verdict')} without a new best node",
    )
    yield Fact("why", learning.move.reason if learning.move else "")


def _table(name: str, rows: Sequence[OperatorRow], columns: int, terminal: Terminal) -> list[str]:
    """The rows as a table with an empty line before it; empty without rows."""
    if not rows:
        return []
    cells = [(name, *_HEAD), *((_name(row), *_cells(row)) for row in rows[:_MAX_ROWS])]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    shown = list(range(1, len(widths)))
    for spare in _DROPPED_FIRST:
        if _NARROWEST_NAME + sum(widths[index] + 2 for index in shown) > columns - 2:
            shown.remove(spare)
    first = min(widths[0], max(columns - 2 - sum(widths[index] + 2 for index in shown), _NARROWEST_NAME))
    lines = [
        cut(f"  {pad(row[0], first)}" + "".join("  " + pad(row[i], widths[i], right=True) for i in shown), columns)
        for row in cells
    ]
    if (more := len(rows) - _MAX_ROWS) > 0:
        lines.append(cut(f"  and {more:,} more: --json prints all", columns))
    return ["", terminal.paint(lines[0], "dim"), *lines[1:]]


def _name(row: OperatorRow) -> str:
    return f"{row.operator} {row.model}".rstrip()


def _cells(row: OperatorRow) -> tuple[str, ...]:
    counts = (row.asked, row.refused, row.failed, row.kept)
    gain = "" if row.mean_gain is None else rough_figure(row.mean_gain)
    over_time = " ".join("  · " if part is None else f"{part:.2f}" for part in row.by_period[:PERIODS])
    return (*(f"{count:,}" for count in counts), f"{row.credit:.3f}", gain, _cost(row), over_time)


def _cost(row: OperatorRow) -> str:
    if row.money_usd:
        return dollars(row.money_usd)
    return f"{row.tokens / 1000:,.1f}k" if row.tokens else "0"
