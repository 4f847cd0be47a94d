"""The calls that were to change a node and came to nothing, as text: two lines or three for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.domain.ids import NodeId
from loopty.report.calls_text import outcome_facts
from loopty.report.columns import cut, pad, short_id, width, wrap
from loopty.report.figures import dollars, moment, plural
from loopty.report.terminal import Terminal
from loopty.views.model_calls import NOT_TAKEN, ModelCall

MOST_SHOWN = 20
"""Calls on a terminal: the newest."""

_INDENT = 4
_LONGEST_OPERATOR, _LONGEST_MODEL = 14, 24
"""So that what it cost has its place in 80 columns."""
_MOST_REASONS = 3
_MOST_LINES = 2
_LEAST = 16
"""Columns of a reason, however narrow the terminal is."""


def fruitless_calls_text(
    node: NodeId, calls: Sequence[ModelCall], columns: int = 80, look: Terminal | None = None
) -> str:
    """The newest last, each with when, by which operator and model, at what cost, and why it came to nothing."""
    look, shown = look or Terminal(), calls[-MOST_SHOWN:]
    name = short_id(node)
    lines = [f"{look.paint(name, 'strong')}  {cut(_summary(calls), max(columns - width(name) - 2, 1))}", ""]
    if older := len(calls) - len(shown):
        lines += [cut(f"  {plural(older, 'older call')} not shown: --json has them all", columns), ""]
    cells = [_cells(call) for call in shown]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    for call, row in zip(shown, cells, strict=True):
        figures = (pad(text, room, right=at > 2) for at, (text, room) in enumerate(zip(row, widths, strict=True)))
        lines.append(cut("  " + "  ".join(figures).rstrip(), columns))
        lines += _why(call, columns, look)
    lines += ["", look.paint(cut(f"every word of them: loopty show {name} --refused --prompt", columns), "dim")]
    return look.render("\n".join(lines))


def _cells(call: ModelCall) -> tuple[str, ...]:
    operator = cut(call.reserved.operator or "not recorded", _LONGEST_OPERATOR)
    model = cut(call.reserved.model or "not recorded", _LONGEST_MODEL)
    return moment(call.at), operator, model, plural(call.tokens, "token"), dollars(call.money_usd)


def _why(call: ModelCall, columns: int, look: Terminal) -> Iterator[str]:
    """What became of it, in a few lines: whatever a server or a candidate wrote into the reason."""
    room = max(columns - _INDENT, _LEAST)
    found = list(outcome_facts(call))
    told = [(f"{fate.name}: {fate.text}", fate.style) for fate in found[:_MOST_REASONS]]
    if len(found) > _MOST_REASONS:
        told.append((f"and {len(found) - _MOST_REASONS} more", "warn"))
    if call.new_nodes:
        told.append((f"its reply gave {', '.join(map(short_id, call.new_nodes))} as well", ""))
    for text, style in told:
        lines = wrap(text, room)
        if len(lines) > _MOST_LINES:
            lines = [*lines[: _MOST_LINES - 1], cut(f"{lines[_MOST_LINES - 1]} {lines[_MOST_LINES]}", room)]
        yield from (" " * _INDENT + look.paint(line, style) for line in lines)


def _summary(calls: Sequence[ModelCall]) -> str:
    """`3 proposals refused, 1 request failed`; a proposal that took several calls is one."""
    refused = sum(len(call.own_refusals) for call in calls)
    failed = sum(bool(call.settled and (call.settled.failure or call.settled.lost)) for call in calls)
    waiting = sum(call.fruitless_reason == NOT_TAKEN for call in calls)
    parts = (
        f"{plural(refused, 'proposal')} refused" if refused else "",
        f"{plural(failed, 'request')} failed" if failed else "",
        f"{waiting:,} {'reply' if waiting == 1 else 'replies'} not taken" if waiting else "",
    )
    return ", ".join(filter(None, parts))
