"""Codex, by OpenAI: `codex exec --json`."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.model import Usage
from loopty.proposers.agent.driver import QUIET, THINKS_SILENTLY, AgentCommand, AgentDriver, AgentOrder
from loopty.proposers.agent.stream import AgentEnd, AgentEvent, count, input_text, json_fields, table, words

_QUIET_SETTINGS = (
    "check_for_update_on_startup=false",
    "analytics.enabled=false",
    "feedback.enabled=false",
    # The provider would search, and loopty's endpoint refuses that.
    'web_search="disabled"',
)
_TOOLS = ("command_execution", "file_change", "mcp_tool_call")
_OUTSIDE_FEATURES = ("plugins", "apps", "plugin_discovery_prefetch")
"""Features that look outside at every start."""


def make_command(order: AgentOrder) -> AgentCommand:
    """Make the command with Codex's own sandbox off, because it cannot work inside another; ours holds."""
    argv = ["codex", "exec"]
    if order.session:
        argv += ["resume", order.session]
    argv += ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    for setting in _QUIET_SETTINGS:
        argv += ["-c", setting]
    for feature in _OUTSIDE_FEATURES:
        argv += ["--disable", feature]
    env = {**QUIET, "CODEX_HOME": f"{order.home}/.codex"}
    model = order.model
    if order.endpoint:
        model = order.endpoint.model
        provider = "model_providers.loopty"
        settings = (
            'model_provider="loopty"',
            f'{provider}.name="loopty"',
            f'{provider}.base_url="{order.endpoint.openai_url}"',
            f'{provider}.env_key="OPENAI_API_KEY"',
            f'{provider}.wire_api="responses"',
        )
        for setting in settings:
            argv += ["-c", setting]
        env |= order.endpoint.key_variables
    if model:
        argv += ["--model", model]
    return AgentCommand((*argv, *order.args, "--", order.prompt), env, {".codex/.keep": ""})


def read_line(line: str) -> Iterator[AgentEvent]:
    """Yield the events of one line of `--json`."""
    fields = json_fields(line)
    item = table(fields, "item")
    match words(fields, "type"):
        case "thread.started":
            yield AgentEvent(session=words(fields, "thread_id"))
        case "item.started" if words(item, "type") in _TOOLS:
            name = words(item, "tool") or words(item, "type")
            text = words(item, "command") or input_text(item, "arguments")
            yield AgentEvent(tool=name, tool_input=text, tool_call=words(item, "id"))
        case "item.completed" if words(item, "type") in _TOOLS:
            yield AgentEvent(
                tool_call=words(item, "id"),
                has_tool_ended=True,
                has_tool_failed=words(item, "status") == "failed" or bool(count(item, "exit_code")),
                tool_output=words(item, "aggregated_output"),
            )
        case "item.completed" if words(item, "type") == "agent_message":
            yield AgentEvent(text=words(item, "text"))
        case "turn.completed":
            yield AgentEvent(usage=_usage(table(fields, "usage")), is_total=True, end=AgentEnd.CLEAN)
        case "turn.failed":
            yield AgentEvent(fault=words(table(fields, "error"), "message"), end=AgentEnd.CRASHED)
        case "error":
            yield AgentEvent(fault=words(fields, "message"))


def _usage(usage: dict[str, object]) -> Usage:
    return Usage(
        count(usage, "input_tokens"),
        count(usage, "output_tokens"),
        count(usage, "cached_input_tokens"),
        count(usage, "reasoning_output_tokens"),
    )


DRIVER = AgentDriver(
    name="codex",
    program="codex",
    install="npm install -g @openai/codex",
    make_command=make_command,
    read_line=read_line,
    credentials=(".codex/auth.json",),
    variables=("CODEX_API_KEY", "OPENAI_API_KEY"),
    home_variables={"CODEX_HOME": ".codex"},
    login="codex login",
    counts_all_parts=True,
    silence_seconds=THINKS_SILENTLY,
)
