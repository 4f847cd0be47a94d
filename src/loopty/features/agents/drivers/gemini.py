"""Gemini CLI, by Google: `gemini -p`; and what Qwen Code, which comes from it, has in common with it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loopty.domain.model import Usage
from loopty.proposers.agent.driver import QUIET, AgentCommand, AgentDriver, AgentOrder
from loopty.proposers.agent.stream import AgentEnd, AgentEvent, count, input_text, json_fields, table, words

_QUIET_SETTINGS = {
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
}


def endpoint_settings(login: str) -> str:
    """Make the settings file for a served model: quiet, and with this kind of login."""
    return json.dumps({**_QUIET_SETTINGS, "security": {"auth": {"selectedType": login}}})


def common_options(order: AgentOrder) -> tuple[str, ...]:
    """List the model, the session to resume, the user's arguments and the prompt."""
    model = order.endpoint.model if order.endpoint else order.model
    return (
        *(("-m", model) if model else ()),
        *(("--resume", order.session) if order.session else ()),
        *order.args,
        "-p",
        order.prompt,
    )


def make_command(order: AgentOrder) -> AgentCommand:
    argv = ("gemini", "--approval-mode", "yolo", "--skip-trust", "-o", "stream-json")
    env, files = {**QUIET, "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_TELEMETRY_ENABLED": "false"}, {}
    if order.endpoint:
        env |= {**order.endpoint.key_variables, "GOOGLE_GEMINI_BASE_URL": order.endpoint.address}
        files[".gemini/settings.json"] = endpoint_settings("gemini-api-key")
    return AgentCommand((*argv, *common_options(order)), env, files)


def read_line(line: str) -> Iterator[AgentEvent]:
    """Yield the events of one line of `stream-json`."""
    fields = json_fields(line)
    match words(fields, "type"):
        case "init":
            yield AgentEvent(session=words(fields, "session_id"))
        case "tool_use":
            call = words(fields, "tool_id")
            yield AgentEvent(
                tool=words(fields, "tool_name"), tool_input=input_text(fields, "parameters"), tool_call=call
            )
            yield AgentEvent(text="\n", is_continued=True)
        case "tool_result":
            yield AgentEvent(
                tool_call=words(fields, "tool_id"),
                has_tool_ended=True,
                has_tool_failed=words(fields, "status") == "error",
                tool_output=words(fields, "output"),
            )
        case "message" if words(fields, "role") == "assistant":
            yield AgentEvent(text=words(fields, "content"), is_continued=fields.get("delta") is True)
        case "error":
            yield AgentEvent(fault=words(fields, "message"))
        case "result":
            stats = table(fields, "stats")
            usage = Usage(count(stats, "input_tokens"), count(stats, "output_tokens"), count(stats, "cached"))
            is_clean = words(fields, "status") == "success"
            fault = "" if is_clean else words(table(fields, "error"), "message") or words(fields, "status")
            end = AgentEnd.CLEAN if is_clean else AgentEnd.CRASHED
            yield AgentEvent(usage=usage, is_total=True, end=end, fault=fault)


DRIVER = AgentDriver(
    name="gemini",
    program="gemini",
    install="npm install -g @google/gemini-cli",
    make_command=make_command,
    read_line=read_line,
    credentials=(".gemini/oauth_creds.json",),
    settings=(".gemini/settings.json", ".gemini/google_accounts.json"),
    variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    login="gemini, then choose a login",
)
