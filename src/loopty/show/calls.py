"""The model calls of a run: what each cost and led to, exact prompts and replies, and the fruitless ones.

Only the events have them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from loopty.domain.ids import NodeId
from loopty.domain.model import CACHED_CALL, Prompt, Reply, Role
from loopty.domain.trial import Pool
from loopty.kit.foreign_text import escape_hidden
from loopty.kit.records import Record, field
from loopty.models.archive import CallRecord
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.fold import Recorded
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.show.figures import dollars, moment, plural
from loopty.show.terminal import Fact, Terminal, cut, fact_lines, pad, width, wrap

NOT_TAKEN = "not taken"
"""No proposal has been made from its reply so far."""


class ModelCall(Struct):
    """One request to a model."""

    reserved: CallReserved
    at: float
    """When the request was made, in seconds since the epoch."""
    settled: CallSettled | None = None
    """None while the call is in flight."""
    new_nodes: list[NodeId] = field(default_factory=list)
    """The nodes made from its reply."""
    refused_proposals: list[ProposalRefused] = field(default_factory=list)
    """Proposals that this call had a part in and that got no trial."""
    taken_indexes: set[int] = field(default_factory=set)
    """The positions in its reply of the proposals that were taken."""
    remaining: int = 0
    """How many proposals in its reply have not been taken."""

    @property
    def tokens(self) -> int:
        """Return the reserved tokens until the call is settled, then the charged ones."""
        return (self.settled or self.reserved).tokens

    @property
    def money_usd(self) -> float:
        return (self.settled or self.reserved).money_usd

    @property
    def nodes(self) -> list[NodeId]:
        """List the nodes it paid for: those made from its reply, or the one that was measured or reviewed."""
        about = self.reserved.node
        return self.new_nodes or ([about] if about and self.reserved.role != Role.EVOLVER else [])

    @property
    def own_refusals(self) -> list[ProposalRefused]:
        """List the refused proposals of its own reply; others belong to later calls that asked again."""
        return [event for event in self.refused_proposals if event.calls[-1] == self.reserved.call]

    @property
    def fruitless_reason(self) -> str:
        """Say why the call led to no node; empty if it led to one, was not meant to, or is in flight."""
        if self.settled is None or self.new_nodes:
            return ""
        if self.settled.lost:
            return "its process died"
        if self.settled.failure:
            return "failed"
        if self.refused_proposals and self.reserved.pool:
            return f"refused: {self.refused_proposals[-1].objection}"
        return NOT_TAKEN if self.reserved.pool else ""


class RunCalls(Record):
    """All model calls of a run."""

    calls: Mapping[str, ModelCall]
    """By name, oldest first."""
    given_again: int
    """Requests answered from memory."""
    last_refused_parent: NodeId | None
    """The node that the last refused attempt was to change; None if no model had made it."""


def calls_of_run(events: Iterable[Recorded], run: int) -> RunCalls:
    """Collect the calls of a run, in one pass over the events about calls."""
    by_name: dict[str, ModelCall] = {}
    again: set[str] = set()
    last: ProposalRefused | None = None
    for item in events:
        event = item.event
        if isinstance(event, CallReserved) and event.run == run:
            if event.operator == CACHED_CALL:
                again.add(event.call)
            else:
                by_name[event.call] = ModelCall(event, item.at)
        elif isinstance(event, CallSettled) and (call := by_name.get(event.call)):
            call.settled = call.settled or event  # a process presumed dead may settle late, without effect
        elif isinstance(event, NodeAdded | ProposalRefused):
            _link_result(by_name, event)
            if isinstance(event, ProposalRefused) and event.run == run and event.pool is Pool.ATTEMPT:
                last = event
    refused = by_name.get(last.calls[-1]) if last and last.calls else None
    return RunCalls(by_name, len(again), refused.reserved.node if refused else None)


def calls_of_node(events: Iterable[Recorded], node: Node) -> tuple[ModelCall, ...]:
    """List the calls behind the node's proposal, then those in which the verifier looked at it."""
    known = calls_of_run(events, node.id.run).calls
    took = (known[name] for name in node.calls if name in known)
    # A call that led to a proposal was to change this node; it belongs to the proposal's own node.
    about = (
        call
        for call in known.values()
        if call.reserved.node == node.id and not (call.new_nodes or call.refused_proposals)
    )
    return (*took, *(call for call in about if call.reserved.role == Role.VERIFIER))


def fruitless_calls_of(events: Iterable[Recorded], node: Node) -> tuple[ModelCall, ...]:
    """List calls that were to change the node and gave nothing, at least in part; oldest first."""
    known = calls_of_run(events, node.id.run).calls.values()
    proposing = (call for call in known if call.reserved.pool and call.reserved.node == node.id)
    return tuple(call for call in proposing if call.fruitless_reason or call.own_refusals)


def _link_result(by_name: Mapping[str, ModelCall], event: NodeAdded | ProposalRefused) -> None:
    """Add a new node or a refused proposal to the calls that made it."""
    for name in event.calls:
        if call := by_name.get(name):
            if isinstance(event, NodeAdded):
                call.new_nodes.append(event.node)
            else:
                call.refused_proposals.append(event)
            call.taken_indexes.add(event.index_in_reply)
            size = event.index_in_reply + event.remaining_in_reply + 1 if name == event.calls[-1] else 0
            call.remaining = max(size - len(call.taken_indexes), 0)


# Models and logs wrote these texts, so nothing reaches the terminal raw: invisible characters are escaped.


_TAB = 4
_MIN_COLUMNS = 16
"""Columns of text, even on a narrower terminal."""


def calls_text(
    calls: Iterable[tuple[ModelCall, CallRecord | None]],
    columns: int = 80,
    terminal: Terminal | None = None,
    name_of: Callable[[str], str] = str,
) -> str:
    """Format each call with prompt and reply. A line of the text starts with │, its continuation with ╎."""
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
    """Yield the call's failures: a failed request, refused proposals of its reply, or a reply not used yet."""
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
    """Yield the lines of the text behind a margin; a long line continues on the next one."""
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


MAX_SHOWN = 20
"""The number of calls shown: the newest ones."""

_INDENT = 4
_LONGEST_OPERATOR, _LONGEST_MODEL = 14, 24
"""So that the cost fits in 80 columns."""
_MAX_REASONS = 3
_MAX_LINES = 2


def fruitless_calls_text(
    node: NodeId,
    calls: Sequence[ModelCall],
    columns: int = 80,
    terminal: Terminal | None = None,
    name_of: Callable[[str], str] = str,
) -> str:
    """Format the calls, newest last, each with its time, operator, model, cost and why it led to nothing."""
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
    """Give the reasons in a few lines, even if a server or a candidate wrote a long text into one."""
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
