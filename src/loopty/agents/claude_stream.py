"""The stream of Claude Code, which Qwen Code writes, too."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.agents.agent_stream import (
    AgentEnd,
    AgentEvent,
    count,
    input_text,
    json_fields,
    money,
    rows,
    table,
    words,
)
from loopty.domain.model import Usage


def read_line(line: str, is_cached_apart: bool = True) -> Iterator[AgentEvent]:
    """The events of one line of `stream-json`; `is_cached_apart`: cached tokens are not in the input's count."""
    fields = json_fields(line)
    match words(fields, "type"):
        case "system":
            yield AgentEvent(session=words(fields, "session_id"))
        case "assistant":
            yield from _read_message(table(fields, "message"), is_cached_apart)
        case "user":
            for part in rows(table(fields, "message"), "content"):
                if words(part, "type") == "tool_result":
                    yield AgentEvent(
                        tool_call=words(part, "tool_use_id"),
                        has_tool_ended=True,
                        has_tool_failed=part.get("is_error") is True,
                        tool_output=input_text(part, "content"),
                    )
        case "stream_event":  # a message as it is written, with `--include-partial-messages`
            delta = table(table(fields, "event"), "delta")
            yield AgentEvent(
                thought=words(delta, "thinking") or words(delta, "text") or words(delta, "partial_json")
            )
        case "result":
            yield _read_result(fields, is_cached_apart)


def _read_message(message: dict[str, object], is_cached_apart: bool) -> Iterator[AgentEvent]:
    # The same message comes once for each of its parts, with the same usage.
    usage = _usage(table(message, "usage"), is_cached_apart)
    yield AgentEvent(step=words(message, "id"), usage=usage)
    for part in rows(message, "content"):
        if tool := words(part, "name"):
            yield AgentEvent(tool=tool, tool_input=input_text(part, "input"), tool_call=words(part, "id"))
        else:
            yield AgentEvent(text=words(part, "text"), thought=words(part, "thinking"))
    if words(message, "stop_reason") == "refusal":
        yield AgentEvent(end=AgentEnd.REFUSED, fault="its model refused")


def _read_result(fields: dict[str, object], is_cached_apart: bool) -> AgentEvent:
    subtype, result = words(fields, "subtype"), words(fields, "result")
    usage = _usage(table(fields, "usage"), is_cached_apart)
    end, fault = AgentEnd.CLEAN, ""
    if words(fields, "stop_reason") == "refusal":
        end, fault = AgentEnd.REFUSED, result or "its model refused"
    elif subtype.startswith("error_max"):
        end, fault = AgentEnd.LIMITED, subtype.removeprefix("error_").replace("_", " ")
    elif fields.get("is_error") is True:
        end, fault = AgentEnd.CRASHED, result or words(table(fields, "error"), "message") or subtype
    return AgentEvent(
        session=words(fields, "session_id"),
        text="" if fault else result,
        usage=usage if usage.tokens else None,
        cost_usd=money(fields, "total_cost_usd"),
        is_total=True,
        end=end,
        fault=fault,
    )


def _usage(usage: dict[str, object], is_cached_apart: bool) -> Usage:
    cached = count(usage, "cache_read_input_tokens")
    apart = cached + count(usage, "cache_creation_input_tokens") if is_cached_apart else 0
    return Usage(count(usage, "input_tokens") + apart, count(usage, "output_tokens"), cached)
