"""What models cost, as text: a table for each question, then what was in vain and what a success took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.report.columns import cut, pad, short_id, width
from loopty.report.facts import Fact, fact_lines
from loopty.report.figures import dollars, plural
from loopty.report.terminal import Terminal
from loopty.views.model_spend import SpendCap, SpendReport, SpendRow, SpendSum

TABLES = ("role", "model", "operator", "node")
_UNASKED = ("role", "model", "operator")
_HEAD = ("calls", "input", "cached", "output", "reasoning", "tokens", "money")
_OFTEN_EMPTY = (5, 3)
"""Columns that are left out where there is nothing in them."""
_SPARED = (5, 3, 4, 2)
"""Columns that a narrow terminal does without, the first to go first."""
_NARROWEST_NAME = 12
_MOST_ROWS = 20


def spend_text(spend: SpendReport, by: str | None = None, columns: int = 80, look: Terminal | None = None) -> str:
    """`by` is the one table that is asked for."""
    look = look or Terminal()
    if not (spend.total.calls or spend.in_flight.calls or spend.given_again):
        return look.render(f"no model was called in run {spend.run}")
    head = f"run {spend.run}"
    lines = [f"{look.paint(head, 'strong')}  {cut(_sum_text(spend.total), columns - len(head) - 2)}"]
    tables = {"role": spend.role, "model": spend.model, "operator": spend.operator, "node": spend.node}
    for name in [by] if by else _UNASKED:
        lines += _table(name, tables[name], columns, look)
    lines += _table("in vain", spend.waste, columns, look)
    if facts := list(_facts(spend)):
        lines += ["", *fact_lines(facts, columns, look)]
    return look.render("\n".join(lines))


def money_text(spent: SpendSum) -> str:
    """Never `$0` for what is only not known."""
    if not spent.unpriced:
        return dollars(spent.money_usd)
    return f"over {dollars(spent.money_usd)}" if spent.money_usd else "unknown"


def _sum_text(spent: SpendSum) -> str:
    return f"{plural(spent.calls, 'call')}, {plural(round(spent.tokens), 'token')}, {money_text(spent)}"


def _table(name: str, rows: Sequence[SpendRow], columns: int, look: Terminal) -> list[str]:
    """The rows in columns, a line before them; nothing where there are none."""
    if not rows:
        return []
    named = "no node" if name == "node" else "unnamed"
    cells = [[name, *_HEAD], *([row.name or named, *_cells(row.sum)] for row in rows[:_MOST_ROWS])]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    shown = [at for at in range(len(widths)) if at not in _OFTEN_EMPTY or any(row[at] != "0" for row in cells[1:])]
    for spare in _SPARED:
        if spare in shown and _NARROWEST_NAME + sum(widths[at] + 2 for at in shown[1:]) > columns - 2:
            shown.remove(spare)
    room = max(columns - 2 - sum(widths[at] + 2 for at in shown[1:]), _NARROWEST_NAME)
    first = min(widths[0], room)
    lines = []
    for row in cells:
        figures = "".join("  " + pad(row[at], widths[at], right=True) for at in shown[1:])
        lines.append(
            cut(f"  {pad(short_id(row[0], first) if name == 'node' else row[0], first)}{figures}", columns)
        )
    if (more := len(rows) - _MOST_ROWS) > 0:
        lines.append(cut(f"  and {more:,} more: --json has them all", columns))
    return ["", look.paint(lines[0], "dim"), *lines[1:]]


def _cells(spent: SpendSum) -> tuple[str, ...]:
    counts = (
        spent.input_tokens,
        spent.cached_tokens,
        spent.output_tokens,
        spent.reasoning_tokens,
        spent.tokens,
    )
    return (f"{spent.calls:,}", *(f"{round(count):,}" for count in counts), money_text(spent))


def _facts(spend: SpendReport) -> Iterator[Fact]:
    if spend.in_flight.calls:
        yield Fact("in flight", f"{_sum_text(spend.in_flight)} reserved")
    total = spend.total
    if (unsaid := round(total.tokens - total.input_tokens - total.output_tokens)) > 0:
        told = f"{plural(unsaid, 'token')} of calls of which nobody said what they took: charged as reserved"
        yield Fact("reserved", told)
    if spend.untaken:
        wait = "waits" if spend.untaken == 1 else "wait"
        yield Fact("untaken", f"{plural(spend.untaken, 'proposal')} {wait} in replies of which others were taken")
    if spend.given_again:
        yield Fact("cached", f"{plural(spend.given_again, 'request')} answered from memory, at no cost")
    if unpriced := ", ".join(row.name for row in spend.model if row.sum.unpriced):
        yield Fact(
            "price", f"unknown of {unpriced}: only tokens are counted; give input_usd and output_usd", "warn"
        )
    for cap in spend.caps:
        yield Fact("limit", _cap(cap, spend))
    if spend.kept and spend.total.calls:
        yield Fact("per kept", _per_kept(spend))


def _cap(cap: SpendCap, spend: SpendReport) -> str:
    roles = {row.name: row.sum for row in spend.role}
    spent = spend.total if cap.whose == "run" else roles.get(cap.whose, SpendSum())
    parts = []
    if cap.tokens is not None:
        parts.append(f"{round(spent.tokens):,} of {plural(cap.tokens, 'token')}")
    if cap.money_usd is not None:
        parts.append(f"{money_text(spent)} of {dollars(cap.money_usd)}")
    return f"{cap.whose}: {', '.join(parts)}"


def _per_kept(spend: SpendReport) -> str:
    """What an improvement took, with all that led nowhere."""
    each = SpendSum(
        tokens=spend.total.tokens / spend.kept,
        money_usd=spend.total.money_usd / spend.kept,
        unpriced=spend.total.unpriced,
    )
    kept = plural(spend.kept, "node") + (" was kept" if spend.kept == 1 else " were kept")
    return f"{kept}: {plural(round(each.tokens), 'token')} and {money_text(each)} for each, all calls counted"
