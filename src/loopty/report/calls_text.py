"""The calls of a node as text: exactly what each model was sent, and what it answered.

Models and logs wrote it, so nothing of it reaches the terminal raw: what cannot be seen is spelled out.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator

from loopty.domain.model import Prompt, Reply
from loopty.models.archive import CallRecord
from loopty.report.columns import short_id, width
from loopty.report.facts import Fact, fact_lines
from loopty.report.figures import dollars, moment, plural
from loopty.report.terminal import Terminal
from loopty.views.model_calls import NOT_TAKEN, ModelCall

_TAB = 4
_LEAST = 16
"""Columns of text, however narrow the terminal is."""


def calls_text(
    calls: Iterable[tuple[ModelCall, CallRecord | None]], columns: int = 80, look: Terminal | None = None
) -> str:
    """Each call with its prompt and its reply. A line of the text begins with │, one that goes on with ╎."""
    look, told = look or Terminal(), list(calls)
    lines: list[str] = []
    for number, (call, kept) in enumerate(told, start=1):
        head = look.paint(f"call {number} of {len(told)}", "strong")
        lines += [head, "", *fact_lines(_facts(call, kept), columns, look), ""]
        if kept:
            for name, text in _texts(kept.prompt, kept.reply):
                lines += [look.paint(name, "strong"), *_quote(text, columns), ""]
    return look.render("\n".join(lines[:-1]))


def _facts(call: ModelCall, kept: CallRecord | None) -> Iterator[Fact]:
    reserved = call.reserved
    yield Fact("call", reserved.call)
    yield Fact("when", moment(call.at))
    yield Fact("model", reserved.model or "not recorded")
    yield Fact("role", reserved.role)
    yield Fact("operator", reserved.operator or "not recorded")
    if reserved.node:
        yield Fact("about", short_id(reserved.node))
    yield Fact("tokens", _usage_text(call))
    yield Fact("money", dollars(call.money_usd))
    if call.new_nodes:
        yield Fact("gave", ", ".join(map(short_id, call.new_nodes)))
    yield from outcome_facts(call)
    if kept is None:
        yield Fact("text", "not in .loopty/calls: removed, lost with its process, or still awaited", "warn")


def outcome_facts(call: ModelCall) -> Iterator[Fact]:
    """What came to nothing, and why: the request, proposals of its reply, or the reply that nobody took."""
    settled = call.settled
    if settled and settled.failure:
        yield Fact("failed", settled.failure, "bad")
    elif settled and settled.lost:
        yield Fact("failed", "its process died before the reply was recorded", "bad")
    for refused in call.own_refusals:
        yield Fact("refused", f"{refused.objection}: {refused.reason}", "warn")
    if len(call.own_refusals) < len(call.refused_proposals):
        yield Fact("no use", "the model was told why, and asked again", "warn")
    if call.fruitless_reason == NOT_TAKEN:
        yield Fact(NOT_TAKEN, "its reply waits, and nobody has made a proposal of it so far")


def _usage_text(call: ModelCall) -> str:
    usage = call.settled.usage if call.settled else None
    if usage is None:
        known = call.settled and not call.settled.lost
        return plural(call.tokens, "token") + ("" if known else " as reserved")
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    reasoning = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{reasoning}"


def _texts(prompt: Prompt, reply: Reply | None) -> Iterator[tuple[str, str]]:
    yield "system", prompt.system
    for turn in prompt.messages:
        yield turn.speaker.value, turn.text
    if prompt.schema is not None:
        yield "schema of the reply", json.dumps(prompt.schema, indent=2, ensure_ascii=False)
    if reply is not None:
        yield "reply" if reply.whole else "reply, cut off at its longest", reply.text


def _quote(text: str, columns: int) -> Iterator[str]:
    """The lines of the text behind a margin; a long one goes on in the next line."""
    room = max(columns - 4, _LEAST)
    for line in text.split("\n"):
        first, *more = _break_line("".join(map(_escape_invisible, line.expandtabs(_TAB))), room)
        yield f"  │ {first}" if first else "  │"
        yield from (f"  ╎ {part}" for part in more)


def _break_line(line: str, room: int) -> list[str]:
    """The line in parts that fit: behind a word where that is possible, so that it can be read."""
    if len(line) <= room and line.isascii():
        return [line]
    parts, taken = [""], 0
    for letter in line:
        columns = width(letter)
        if taken + columns > room:
            words, space, begun = parts[-1].rpartition(" ")
            parts[-1:] = [words + space, begun] if words.strip() else [parts[-1], ""]
            taken = width(parts[-1])
        parts[-1] += letter
        taken += columns
    return parts


def _escape_invisible(letter: str) -> str:
    """The letter; spelled out where it would steer the terminal, or not be seen."""
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return letter.encode("unicode_escape").decode() if hidden else letter
