"""What models cost, as text: tables by role, model and operator, calls without result, cost per kept node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loopty.kit.records import replace
from loopty.report.columns import Fact, cut, fact_lines, pad, width
from loopty.report.figures import dollars, plural
from loopty.report.terminal import Terminal
from loopty.views.model_spend import SpendCap, SpendReport, SpendRow, SpendSum

TABLES = ("role", "model", "operator", "node")
_DEFAULT_TABLES = ("role", "model", "operator")
_HEAD = ("calls", "input", "cached", "output", "reasoning", "tokens", "money")
_OFTEN_EMPTY = (5, 3)
"""Columns that are left out if they are empty."""
_DROPPED_FIRST = (5, 3, 4, 2)
"""Columns that a narrow terminal drops, in this order."""
_NARROWEST_NAME = 12
_MAX_ROWS = 20


def spend_text(
    spend: SpendReport,
    by: str | None = None,
    columns: int = 80,
    terminal: Terminal | None = None,
    name_of: Callable[[str], str] = str,
) -> str:
    """The spend of a run; `by` names the only table to show."""
    terminal = terminal or Terminal()
    if not (spend.total.calls or spend.in_flight.calls or spend.given_again):
        return terminal.render(f"no model was called in run {spend.run}")
    head = f"run {spend.run}"
    lines = [f"{terminal.paint(head, 'strong')}  {cut(_sum_text(spend.total), columns - len(head) - 2)}"]
    tables = {
        "role": spend.role,
        "model": spend.model,
        "operator": spend.operator,
        "node": [replace(row, name=name_of(row.name)) if row.name else row for row in spend.node],
    }
    for name in [by] if by else _DEFAULT_TABLES:
        lines += _table(name, tables[name], columns, terminal)
    lines += _table("no result", spend.waste, columns, terminal)
    if facts := list(_facts(spend)):
        lines += ["", *fact_lines(facts, columns, terminal)]
    return terminal.render("\n".join(lines))


def money_text(spent: SpendSum) -> str:
    """The cost; `unknown` instead of `$0` if the price is unknown."""
    if not spent.unpriced:
        return dollars(spent.money_usd)
    return f"over {dollars(spent.money_usd)}" if spent.money_usd else "unknown"


def _sum_text(spent: SpendSum) -> str:
    return f"{plural(spent.calls, 'call')}, {plural(round(spent.tokens), 'token')}, {money_text(spent)}"


def _table(name: str, rows: Sequence[SpendRow], columns: int, terminal: Terminal) -> list[str]:
    """The rows as a table with an empty line before it; empty without rows."""
    if not rows:
        return []
    no_name = "no node" if name == "node" else "unnamed"
    cells = [[name, *_HEAD], *([row.name or no_name, *_cells(row.sum)] for row in rows[:_MAX_ROWS])]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    shown = [i for i in range(len(widths)) if i not in _OFTEN_EMPTY or any(row[i] != "0" for row in cells[1:])]
    for spare in _DROPPED_FIRST:
        if spare in shown and _NARROWEST_NAME + sum(widths[i] + 2 for i in shown[1:]) > columns - 2:
            shown.remove(spare)
    room = max(columns - 2 - sum(widths[i] + 2 for i in shown[1:]), _NARROWEST_NAME)
    first = min(widths[0], room)
    lines = []
    for row in cells:
        figures = "".join("  " + pad(row[i], widths[i], right=True) for i in shown[1:])
        lines.append(cut(f"  {pad(row[0], first)}{figures}", columns))
    if (more := len(rows) - _MAX_ROWS) > 0:
        lines.append(cut(f"  and {more:,} more: --json prints all", columns))
    return ["", terminal.paint(lines[0], "dim"), *lines[1:]]


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
    if (unreported := round(total.tokens - total.input_tokens - total.output_tokens)) > 0:
        yield Fact("reserved", f"{plural(unreported, 'token')} estimated: the server reported no usage")
    if spend.untaken:
        yield Fact("untaken", f"{plural(spend.untaken, 'proposal')} waiting in replies that were partly used")
    if spend.given_again:
        yield Fact("cached", f"{plural(spend.given_again, 'request')} answered from memory, at no cost")
    if unpriced := ", ".join(row.name for row in spend.model if row.sum.unpriced):
        yield Fact(
            "price", f"unknown for {unpriced}: only tokens are counted; set input_usd and output_usd", "warn"
        )
    for cap in spend.caps:
        yield Fact("limit", _cap(cap, spend))
    if spend.shares:
        yield Fact("shares", spend.shares)
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
    """The cost of a kept node, with all calls that led nowhere."""
    each = SpendSum(
        tokens=spend.total.tokens / spend.kept,
        money_usd=spend.total.money_usd / spend.kept,
        unpriced=spend.total.unpriced,
    )
    tokens = plural(round(each.tokens), "token")
    return f"{plural(spend.kept, 'kept node')}: {tokens} and {money_text(each)} each, all calls counted"
