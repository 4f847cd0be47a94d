"""The model calls of a node as text: the exact prompt of each, and the reply.

Models and logs wrote these texts, so nothing reaches the terminal raw: invisible characters are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from loopty.domain.model import Prompt, Reply
from loopty.kit.printable import escape_hidden
from loopty.models.archive import CallRecord
from loopty.report.columns import Fact, fact_lines, width
from loopty.report.figures import dollars, moment, plural
from loopty.report.terminal import Terminal
from loopty.views.model_calls import NOT_TAKEN, ModelCall

_TAB = 4
_MIN_COLUMNS = 16
"""Columns of text, even on a narrower terminal."""


def calls_text(
    calls: Iterable[tuple[ModelCall, CallRecord | None]],
    columns: int = 80,
    terminal: Terminal | None = None,
    name_of: Callable[[str], str] = str,
) -> str:
    """Each call with its prompt and its reply. A line of the text starts with │, its continuation with ╎."""
    terminal, shown = terminal or Terminal(), list(calls)
    lines: list[str] = []
    for number, (call, record) in enumerate(shown, start=1):
        head = terminal.paint(f"call {number} of {len(shown)}", "strong")
        lines += [head, "", *fact_lines(_facts(call, record, name_of), columns, terminal), ""]
        if record:
            for name, text in _texts(record.prompt, record.reply):
                lines += [terminal.paint(name, "strong"), *_quote(text, columns), ""]
    return terminal.render("\n".join(lines[:-1]))


def _facts(call: ModelCall, record: CallRecord | None, name_of: Callable[[str], str]) -> Iterator[Fact]:
    reserved = call.reserved
    yield Fact("call", reserved.call)
    yield Fact("when", moment(call.at))
    yield Fact("model", reserved.model or "not recorded")
    yield Fact("role", reserved.role)
    yield Fact("operator", reserved.operator or "not recorded")
    if reserved.node:
        yield Fact("about", name_of(reserved.node))
    yield Fact("tokens", _usage_text(call))
    yield Fact("money", dollars(call.money_usd))
    if call.new_nodes:
        yield Fact("led to", ", ".join(map(name_of, call.new_nodes)))
    yield from outcome_facts(call)
    if record is None:
        yield Fact(
            "text",
            "no longer in the archive of calls: removed, not written before its process died, or still running",
            "warn",
        )


def outcome_facts(call: ModelCall) -> Iterator[Fact]:
    """Failures of the call: a failed request, refused proposals of its reply, or a reply not used yet."""
    settled = call.settled
    if settled and settled.failure:
        yield Fact("failed", settled.failure, "bad")
    elif settled and settled.lost:
        yield Fact("failed", "its process died before the reply was recorded", "bad")
    for refusal in call.own_refusals:
        yield Fact("refused", f"{refusal.objection}: {refusal.reason}", "warn")
    if len(call.own_refusals) < len(call.refused_proposals):
        yield Fact("retried", "unusable reply; the model was asked again with the reason", "warn")
    if call.fruitless_reason == NOT_TAKEN:
        yield Fact(NOT_TAKEN, "its reply waits; no proposal has been made from it so far")


def _usage_text(call: ModelCall) -> str:
    usage = call.settled.usage if call.settled else None
    if usage is None:
        charged = call.settled and not call.settled.lost
        return plural(call.tokens, "token") + ("" if charged else " reserved")
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    reasoning = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{reasoning}"


def _texts(prompt: Prompt, reply: Reply | None) -> Iterator[tuple[str, str]]:
    yield "system", prompt.system
    for turn in prompt.messages:
        yield turn.speaker.value, turn.text
    if prompt.schema is not None:
        yield "reply schema", json.dumps(prompt.schema, indent=2, ensure_ascii=False)
    if reply is not None:
        yield "reply" if reply.whole else "reply, cut off at the length limit", reply.text


def _quote(text: str, columns: int) -> Iterator[str]:
    """The lines of the text behind a margin; a long line continues on the next one."""
    room = max(columns - 4, _MIN_COLUMNS)
    for line in text.split("\n"):
        first, *more = _break_line(escape_hidden(line.expandtabs(_TAB)), room)
        yield f"  │ {first}" if first else "  │"
        yield from (f"  ╎ {part}" for part in more)


def _break_line(line: str, room: int) -> list[str]:
    """Break the line into parts that fit, between words if possible."""
    if len(line) <= room and line.isascii():
        return [line]
    parts, used = [""], 0
    for letter in line:
        columns = width(letter)
        if used + columns > room:
            words, space, rest = parts[-1].rpartition(" ")
            parts[-1:] = [words + space, rest] if words.strip() else [parts[-1], ""]
            used = width(parts[-1])
        parts[-1] += letter
        used += columns
    return parts
