"""Qwen Code: `qwen --yolo -o stream-json`."""

from __future__ import annotations

import functools
import json

from loopty.agents import claude_stream
from loopty.agents.agent_driver import QUIET, AgentCommand, AgentDriver, AgentOrder

_QUIET_SETTINGS = {
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
}


def make_command(order: AgentOrder) -> AgentCommand:
    argv, env, files = ["qwen", "--yolo", "-o", "stream-json"], {**QUIET}, {}
    model = order.model
    if order.endpoint:
        model = order.endpoint.model
        argv += ["--auth-type", "openai"]
        env |= {
            **order.endpoint.key_variables,
            "OPENAI_BASE_URL": order.endpoint.openai_url,
            "OPENAI_MODEL": model,
        }
        settings = {**_QUIET_SETTINGS, "security": {"auth": {"selectedType": "openai"}}}
        files[".qwen/settings.json"] = json.dumps(settings)
    if model:
        argv += ["-m", model]
    if order.session:
        argv += ["--resume", order.session]
    return AgentCommand((*argv, *order.args, "-p", order.prompt), env, files)


DRIVER = AgentDriver(
    name="qwen",
    program="qwen",
    install="npm install -g @qwen-code/qwen-code",
    make_command=make_command,
    read_line=functools.partial(claude_stream.read_line, is_cached_apart=False),
    credentials=(".qwen/oauth_creds.json",),
    settings=(".qwen/settings.json",),
    variables=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
    login="qwen, then /auth",
    counts_all_parts=True,
)
