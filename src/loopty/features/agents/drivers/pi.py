"""pi: `pi --mode json -p`."""

from __future__ import annotations

import json
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

_CONTEXT, _OUTPUT = 128_000, 8_192


def make_command(order: AgentOrder) -> AgentCommand:
    argv = ["pi", "--mode", "json", "-p"]
    env = {
        **QUIET,
        "PI_SKIP_VERSION_CHECK": "1",
        "PI_TELEMETRY": "0",
        "PI_CODING_AGENT_DIR": f"{order.home}/.pi/agent",
    }
    files = {}
    if order.endpoint:
        name = order.endpoint.model
        argv += ["--offline", "--provider", "loopty", "--model", name]
        env |= {**order.endpoint.key_variables, "PI_OFFLINE": "1"}
        free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {
            "id": name,
            "name": name,
            "reasoning": False,
            "input": ["text"],
            "cost": free,
            "contextWindow": _CONTEXT,
            "maxTokens": _OUTPUT,
        }
        provider = {
            "baseUrl": order.endpoint.openai_url,
            "api": "openai-completions",
            "apiKey": order.endpoint.key,
            "models": [model],
        }
        files[".pi/agent/models.json"] = json.dumps({"providers": {"loopty": provider}})
    elif order.model:
        argv += ["--model", order.model]
    if order.session:
        argv += ["--session", order.session]
    return AgentCommand((*argv, *order.args, order.prompt), env, files)


def read_line(line: str) -> Iterator[AgentEvent]:
    """Yield the events of one line of `--mode json`."""
    fields = json_fields(line)
    message = table(fields, "message")
    match words(fields, "type"):
        case "session":
            yield AgentEvent(session=words(fields, "id"))
        case "tool_execution_start":
            call = words(fields, "toolCallId")
            yield AgentEvent(tool=words(fields, "toolName"), tool_input=input_text(fields, "args"), tool_call=call)
        case "tool_execution_end":
            yield AgentEvent(
                tool_call=words(fields, "toolCallId"),
                has_tool_ended=True,
                has_tool_failed=fields.get("isError") is True,
                tool_output=input_text(fields, "result"),
            )
        case "message_update":
            yield AgentEvent(thought=words(table(fields, "assistantMessageEvent"), "delta"))
        case "message_end" if words(message, "role") == "assistant":
            yield from _read_message(message)


def _read_message(message: dict[str, object]) -> Iterator[AgentEvent]:
    usage = table(message, "usage")
    tokens = Usage(
        count(usage, "input", "cacheRead", "cacheWrite"), count(usage, "output"), count(usage, "cacheRead")
    )
    yield AgentEvent(usage=tokens, cost_usd=money(table(usage, "cost"), "total"))
    for part in rows(message, "content"):
        yield AgentEvent(text=words(part, "text"))
    match words(message, "stopReason"):
        case "stop":
            yield AgentEvent(end=AgentEnd.CLEAN)
        case "length":
            yield AgentEvent(end=AgentEnd.LIMITED, fault="its reply was cut off")
        case "error" | "aborted":
            yield AgentEvent(end=AgentEnd.CRASHED, fault=words(message, "errorMessage") or "an error")


DRIVER = AgentDriver(
    name="pi",
    program="pi",
    install="npm install -g @earendil-works/pi-coding-agent",
    make_command=make_command,
    read_line=read_line,
    credentials=(".pi/agent/auth.json",),
    settings=(".pi/agent/models.json", ".pi/agent/settings.json"),
    variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    home_variables={"PI_CODING_AGENT_DIR": ".pi/agent"},
    login="pi, then /login",
)
