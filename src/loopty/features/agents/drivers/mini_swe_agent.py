"""mini-swe-agent: `mini -y -t`. Its trajectory, a file, says what its output does not."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.model import Usage
from loopty.proposers.agent.driver import QUIET, THINKS_SILENTLY, AgentCommand, AgentDriver, AgentOrder
from loopty.proposers.agent.stream import (
    AgentEnd,
    AgentEvent,
    count,
    json_fields,
    money,
    plain_text,
    rows,
    table,
    words,
)

_TRAJECTORY = ".loopty-trajectory.json"
_LIMITS = ("LimitsExceeded", "TimeExceeded")


def make_command(order: AgentOrder) -> AgentCommand:
    env = {
        **QUIET,
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_GLOBAL_CONFIG_DIR": f"{order.home}/.config/mini-swe-agent",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    argv = ["mini", "-y", "--exit-immediately", "-l", "0", "-o", f"{order.home}/{_TRAJECTORY}", "-c", "mini.yaml"]
    model = order.model
    if order.endpoint:
        model = f"openai/{order.endpoint.model}"
        argv += ["-c", f"model.model_kwargs.api_base={order.endpoint.openai_url}"]
        env |= order.endpoint.key_variables
    if model:
        argv += ["-m", model]
    files = {".config/mini-swe-agent/.keep": ""}
    return AgentCommand((*argv, *order.args, "-t", order.prompt), env, files)


def read_trajectory(content: bytes) -> Iterator[AgentEvent]:
    """Yield the events of a whole trajectory."""
    fields = json_fields(content.decode(errors="replace"))
    for message in rows(fields, "messages"):
        if words(message, "role") == "assistant":
            usage = table(table(table(message, "extra"), "response"), "usage")
            yield AgentEvent(usage=Usage(count(usage, "prompt_tokens"), count(usage, "completion_tokens")))
            yield AgentEvent(text=words(message, "content"), tool="bash")
    info = table(fields, "info")
    yield AgentEvent(cost_usd=money(table(info, "model_stats"), "instance_cost"), is_total=True)
    status = words(info, "exit_status")
    if status in _LIMITS:
        yield AgentEvent(end=AgentEnd.LIMITED, fault=status)
    elif status and status != "Submitted":
        yield AgentEvent(end=AgentEnd.CRASHED, fault=status)
    elif status:
        yield AgentEvent(text=words(info, "submission"), end=AgentEnd.CLEAN)


DRIVER = AgentDriver(
    name="mini-swe-agent",
    program="mini",
    install="pip install mini-swe-agent",
    make_command=make_command,
    read_line=plain_text,
    settings=(".config/mini-swe-agent/.env",),
    variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    login="mini-extra config setup",
    can_resume=False,
    silence_seconds=THINKS_SILENTLY,
    streams=False,
    result_file=_TRAJECTORY,
    read_result=read_trajectory,
)
