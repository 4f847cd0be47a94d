"""aider: `aider --message`. It has no stream of events: its words are its output, its tokens a line in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopty.domain.model import Usage
from loopty.proposers.agent.driver import QUIET, THINKS_SILENTLY, AgentCommand, AgentDriver, AgentOrder
from loopty.proposers.agent.stream import AgentEnd, AgentEvent

_MAX_FILES = 40
_OPTIONS = (
    "--yes-always",
    "--no-git",
    "--no-auto-commits",
    "--no-check-update",
    "--no-show-release-notes",
    "--no-show-model-warnings",
    "--no-detect-urls",
    "--no-gitignore",
    "--no-pretty",
    "--no-stream",
    "--analytics-disable",
)
_TOKENS = re.compile(r"Tokens: ([\d.,]+)(k|M)? sent,.*?([\d.,]+)(k|M)? received")
_COST = re.compile(r"Cost: \$([\d.]+) message")
_FAULT = re.compile(r"litellm\.\w*(?:Error|Exception)[^\n]*")
_MOST = 1e9
_SCALES = {"": 1, "k": 1_000, "M": 1_000_000}


def make_command(order: AgentOrder) -> AgentCommand:
    env = {**QUIET, "AIDER_ANALYTICS_DISABLE": "true", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    # It writes its histories to the current folder unless told otherwise.
    argv = ["aider", *_OPTIONS]
    for name in ("input-history-file", "chat-history-file"):
        argv += [f"--{name}", f"{order.home}/.aider.{name}"]
    model = order.model
    if order.endpoint:
        model = f"openai/{order.endpoint.model}"
        env |= {**order.endpoint.key_variables, "OPENAI_API_BASE": order.endpoint.openai_url}
    if model:
        argv += ["--model", model]
    return AgentCommand((*argv, *order.args, "--message", order.prompt, *order.files[:_MAX_FILES]), env)


def read_line(line: str) -> Iterator[AgentEvent]:
    """Yield the events of one line of output."""
    if found := _TOKENS.search(line):
        cost = _COST.search(line)
        usage = Usage(_number(found[1], found[2]), _number(found[3], found[4]))
        yield AgentEvent(usage=usage, cost_usd=_amount(cost[1]) if cost else None)
    elif fault := _FAULT.search(line):
        yield AgentEvent(fault=fault[0], end=AgentEnd.CRASHED)
    else:
        yield AgentEvent(text=f"{line}\n", is_continued=True)


def _number(digits: str, scale: str | None) -> int:
    return round(_amount(digits.replace(",", "")) * _SCALES[scale or ""])


def _amount(digits: str) -> float:
    try:
        return min(float(digits.rstrip(".")), _MOST)  # a long row of digits is infinite
    except ValueError:
        return 0.0


DRIVER = AgentDriver(
    name="aider",
    program="aider",
    install="pip install aider-chat",
    make_command=make_command,
    read_line=read_line,
    settings=(".aider.conf.yml", ".env"),
    variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY"),
    login="set the key of your provider, as OPENAI_API_KEY",
    can_resume=False,
    silence_seconds=THINKS_SILENTLY,
)
