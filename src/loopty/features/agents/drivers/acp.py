"""Any agent that speaks the Agent Client Protocol (ACP), version 1, over its standard input and output."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.model import Usage
from loopty.features.agents.drivers import command
from loopty.kit.records import replace
from loopty.proposers.agent.driver import AgentCommand, AgentDriver, AgentOrder
from loopty.proposers.agent.stream import AgentEnd, AgentEvent, count, input_text, json_fields, money, table, words

_ENDED = ("completed", "failed")
_LIMITS = ("max_tokens", "max_turn_requests")


def make_command(order: AgentOrder) -> AgentCommand:
    """Start the client, a program of the SDK beside the agent in its sandbox; it prints what the agent sends."""
    return replace(command.make_command(order), sdk_program="acp_client.py")


def read_line(line: str) -> Iterator[AgentEvent]:
    """Yield the events of one message of the agent."""
    fields = json_fields(line)
    if words(fields, "method") == "session/update":
        yield from _read_update(table(table(fields, "params"), "update"))
    elif session := words(fields, "loopty_session"):
        yield AgentEvent(session=session)
    elif stop := words(table(fields, "result"), "stopReason"):
        yield AgentEvent(usage=_usage(table(table(fields, "result"), "usage")), is_total=True)
        yield _end(stop)
    elif fault := words(table(fields, "error"), "message"):
        error = table(fields, "error")
        detail = f": {input_text(error, 'data')}" if error.get("data") else ""
        yield AgentEvent(fault=f"{fault}{detail}", end=AgentEnd.CRASHED)


def _read_update(update: dict[str, object]) -> Iterator[AgentEvent]:
    text = words(table(update, "content"), "text")
    call, is_ended = words(update, "toolCallId"), words(update, "status") in _ENDED
    match words(update, "sessionUpdate"):
        case "agent_message_chunk":
            yield AgentEvent(text=text, is_continued=True)
        case "agent_thought_chunk":
            yield AgentEvent(thought=text)
        case "tool_call":
            name = words(update, "kind") or "tool"
            words_of_input = f"{words(update, 'title')} {input_text(update, 'rawInput')}"
            yield AgentEvent(tool=name, tool_input=words_of_input, tool_call=call)
            yield AgentEvent(text="\n", is_continued=True)
        case "usage_update":
            cost = table(update, "cost")
            if words(cost, "currency") == "USD":
                yield AgentEvent(cost_usd=money(cost, "amount"), is_total=True)
    if is_ended and words(update, "sessionUpdate") in ("tool_call", "tool_call_update"):
        output = input_text(update, "rawOutput") + input_text(update, "content")
        has_failed = words(update, "status") == "failed"
        yield AgentEvent(tool_call=call, has_tool_ended=True, has_tool_failed=has_failed, tool_output=output)


def _end(stop: str) -> AgentEvent:
    if stop == "refusal":
        return AgentEvent(end=AgentEnd.REFUSED, fault="its model refused")
    if stop in _LIMITS:
        return AgentEvent(end=AgentEnd.LIMITED, fault=stop.replace("_", " "))
    if stop == "end_turn":
        return AgentEvent(end=AgentEnd.CLEAN)
    return AgentEvent(end=AgentEnd.CRASHED, fault=stop)


def _usage(usage: dict[str, object]) -> Usage | None:
    """Return the tokens of the session, if the agent states them; its total has everything."""
    output = count(usage, "outputTokens", "thoughtTokens")
    total = count(usage, "totalTokens") or output + count(
        usage, "inputTokens", "cachedReadTokens", "cachedWriteTokens"
    )
    if not total:
        return None
    cached = count(usage, "cachedReadTokens")
    return Usage(max(total - output, 0), output, cached, count(usage, "thoughtTokens"))


DRIVER = AgentDriver(
    name="acp",
    program="",
    install="",
    make_command=make_command,
    read_line=read_line,
)
