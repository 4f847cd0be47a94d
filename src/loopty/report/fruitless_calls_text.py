"""The model calls that were to change a node and failed or were refused, as text: two or three lines each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loopty.domain.ids import NodeId
from loopty.report.calls_text import outcome_facts
from loopty.report.columns import cut, pad, width, wrap
from loopty.report.figures import dollars, moment, plural
from loopty.report.terminal import Terminal
from loopty.views.model_calls import NOT_TAKEN, ModelCall

MAX_SHOWN = 20
"""The number of calls shown: the newest ones."""

_INDENT = 4
_LONGEST_OPERATOR, _LONGEST_MODEL = 14, 24
"""So that the cost fits in 80 columns."""
_MAX_REASONS = 3
_MAX_LINES = 2
_MIN_COLUMNS = 16
"""Columns of a reason, even on a narrower terminal."""


def fruitless_calls_text(
    node: NodeId,
    calls: Sequence[ModelCall],
    columns: int = 80,
    terminal: Terminal | None = None,
    name_of: Callable[[str], str] = str,
) -> str:
    """The newest call last, each with its time, operator, model, cost and the reason it led to nothing."""
    terminal, shown, name = terminal or Terminal(), calls[-MAX_SHOWN:], name_of(node)
    lines = [f"{terminal.paint(name, 'strong')}  {cut(_summary(calls), max(columns - width(name) - 2, 1))}", ""]
    if older := len(calls) - len(shown):
        lines += [cut(f"  {plural(older, 'older call')} not shown: --json prints all", columns), ""]
    cells = [_cells(call) for call in shown]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    for call, row in zip(shown, cells, strict=True):
        figures = (pad(text, room, right=at > 2) for at, (text, room) in enumerate(zip(row, widths, strict=True)))
        lines.append(cut("  " + "  ".join(figures).rstrip(), columns))
        lines += _why(call, columns, terminal, name_of)
    lines += [
        "",
        terminal.paint(cut(f"full prompts and replies: loopty show {name} --refused --prompt", columns), "dim"),
    ]
    return terminal.render("\n".join(lines))


def _cells(call: ModelCall) -> tuple[str, ...]:
    operator = cut(call.reserved.operator or "not recorded", _LONGEST_OPERATOR)
    model = cut(call.reserved.model or "not recorded", _LONGEST_MODEL)
    return moment(call.at), operator, model, plural(call.tokens, "token"), dollars(call.money_usd)


def _why(call: ModelCall, columns: int, terminal: Terminal, name_of: Callable[[str], str]) -> Iterator[str]:
    """The reasons in a few lines, even if a server or a candidate wrote a long text into one."""
    room = max(columns - _INDENT, _MIN_COLUMNS)
    facts = list(outcome_facts(call))
    reasons = [(f"{fact.name}: {fact.text}", fact.style) for fact in facts[:_MAX_REASONS]]
    if len(facts) > _MAX_REASONS:
        reasons.append((f"and {len(facts) - _MAX_REASONS} more", "warn"))
    if call.new_nodes:
        reasons.append((f"its reply also led to {', '.join(map(name_of, call.new_nodes))}", ""))
    for text, style in reasons:
        lines = wrap(text, room)
        if len(lines) > _MAX_LINES:
            lines = [*lines[: _MAX_LINES - 1], cut(f"{lines[_MAX_LINES - 1]} {lines[_MAX_LINES]}", room)]
        yield from (" " * _INDENT + terminal.paint(line, style) for line in lines)


def _summary(calls: Sequence[ModelCall]) -> str:
    """`3 proposals refused, 1 request failed`; a proposal that took several calls counts once."""
    refused = sum(len(call.own_refusals) for call in calls)
    failed = sum(bool(call.settled and (call.settled.failure or call.settled.lost)) for call in calls)
    waiting = sum(call.fruitless_reason == NOT_TAKEN for call in calls)
    parts = (
        f"{plural(refused, 'proposal')} refused" if refused else "",
        f"{plural(failed, 'request')} failed" if failed else "",
        f"{waiting:,} {'reply' if waiting == 1 else 'replies'} not taken" if waiting else "",
    )
    return ", ".join(filter(None, parts))
