"""Claude Code, by Anthropic: `claude -p`; and its stream, which Qwen Code writes, too."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.model import Usage
from loopty.proposers.agent.driver import QUIET, AgentCommand, AgentDriver, AgentOrder
from loopty.proposers.agent.stream import (
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


def read_line(line: str, is_cached_apart: bool = True) -> Iterator[AgentEvent]:
    """Yield the events of one line of `stream-json`; `is_cached_apart`: its input's count lacks cached tokens."""
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


_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_BUG_COMMAND": "1",
}


def make_command(order: AgentOrder) -> AgentCommand:
    argv = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
    argv.append("--include-partial-messages")  # a long thought is then no silence
    # The sandbox is ours; the program asks for this before it runs without asking.
    env = {**QUIET, **_QUIET, "IS_SANDBOX": "1", "CLAUDE_CONFIG_DIR": f"{order.home}/.claude"}
    model = order.model
    if order.endpoint:
        model = order.endpoint.model
        argv.append("--bare")  # otherwise it looks for a login; with one, it would not use it
        env |= {
            **order.endpoint.key_variables,
            "ANTHROPIC_BASE_URL": order.endpoint.address,
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_SMALL_FAST_MODEL": model,
        }
    if model:
        argv += ["--model", model]
    if order.session:
        argv += ["--resume", order.session]
    return AgentCommand((*argv, *order.args, "--", order.prompt), env, {".claude/.keep": ""})


DRIVER = AgentDriver(
    name="claude",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    make_command=make_command,
    read_line=read_line,
    credentials=(".claude/.credentials.json",),
    # With CLAUDE_CONFIG_DIR, the program reads its own file from that folder.
    settings=(".claude/.claude.json",),
    variables=("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    home_variables={"CLAUDE_CONFIG_DIR": ".claude"},
    login="claude, then /login",
)
