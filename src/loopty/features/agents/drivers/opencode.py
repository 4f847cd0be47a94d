"""opencode: `opencode run --format json`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loopty.domain.model import Usage
from loopty.proposers.agent.driver import QUIET, THINKS_SILENTLY, AgentCommand, AgentDriver, AgentOrder
from loopty.proposers.agent.stream import AgentEnd, AgentEvent, count, input_text, json_fields, money, table, words

_QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}
_NO_NETWORK = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}
_CONTEXT, _OUTPUT = 128_000, 8_192


def make_command(order: AgentOrder) -> AgentCommand:
    argv = ["opencode", "run", "--format", "json", "--auto"]
    env, files = {**QUIET, **_QUIET, **_folders(order.home)}, {}
    model = order.model
    if order.endpoint:
        model = f"loopty/{order.endpoint.model}"
        argv.append("--pure")  # plug-ins would be fetched
        env |= {**_NO_NETWORK, **order.endpoint.key_variables}
        files[".config/opencode/opencode.json"] = json.dumps(_endpoint_settings(order))
    if model:
        argv += ["--model", model]
    if order.session:
        argv += ["--session", order.session]
    return AgentCommand((*argv, *order.args, "--", order.prompt), env, files)


def _folders(home: str) -> dict[str, str]:
    """Say where it keeps its files: the user's own settings for these must not lead elsewhere."""
    return {
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_STATE_HOME": f"{home}/.local/state",
    }


def _endpoint_settings(order: AgentOrder) -> dict[str, object]:
    assert order.endpoint is not None
    name = order.endpoint.model
    model = {"name": name, "tool_call": True, "limit": {"context": _CONTEXT, "output": _OUTPUT}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "loopty",
        "options": {"baseURL": order.endpoint.openai_url, "apiKey": order.endpoint.key},
        "models": {name: model},
    }
    return {
        "autoupdate": False,
        "share": "disabled",
        "model": f"loopty/{name}",
        "small_model": f"loopty/{name}",
        "enabled_providers": ["loopty"],
        "provider": {"loopty": provider},
    }


def read_line(line: str) -> Iterator[AgentEvent]:
    """Yield the events of one line of `--format json`."""
    fields = json_fields(line)
    part = table(fields, "part")
    session = words(fields, "sessionID")
    match words(fields, "type"):
        case "text":
            yield AgentEvent(session=session, text=words(part, "text"))
        case "tool_use":
            state, call = table(part, "state"), words(part, "callID")
            has_failed = words(state, "status") == "error" or bool(count(table(state, "metadata"), "exit"))
            yield AgentEvent(
                session, tool=words(part, "tool"), tool_input=input_text(state, "input"), tool_call=call
            )
            # It is reported when it has ended.
            yield AgentEvent(
                tool_call=call,
                has_tool_ended=True,
                has_tool_failed=has_failed,
                tool_output=words(state, "output") or words(state, "error"),
            )
        case "step_finish":
            tokens = table(part, "tokens")
            cache, reasoning = table(tokens, "cache"), count(tokens, "reasoning")
            usage = Usage(
                count(tokens, "input") + count(cache, "read", "write"),
                count(tokens, "output") + reasoning,
                count(cache, "read"),
                reasoning,
            )
            end = AgentEnd.CLEAN if words(part, "reason") == "stop" else None
            yield AgentEvent(session, step=words(part, "id"), usage=usage, cost_usd=money(part, "cost"), end=end)
        case "error":
            error = table(fields, "error")
            fault = words(table(error, "data"), "message") or words(error, "name") or "an error"
            yield AgentEvent(session=session, fault=fault, end=AgentEnd.CRASHED)


DRIVER = AgentDriver(
    name="opencode",
    program="opencode",
    install="npm install -g opencode-ai",
    make_command=make_command,
    read_line=read_line,
    credentials=(".local/share/opencode/auth.json",),
    settings=(".config/opencode/opencode.json",),
    variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    login="opencode auth login",
    silence_seconds=THINKS_SILENTLY,
)
