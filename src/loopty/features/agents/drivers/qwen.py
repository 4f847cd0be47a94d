"""Qwen Code: `qwen --yolo -o stream-json`."""

from __future__ import annotations

import functools

from loopty.features.agents.drivers import claude
from loopty.features.agents.drivers.gemini import common_options, endpoint_settings
from loopty.proposers.agent.driver import QUIET, AgentCommand, AgentDriver, AgentOrder


def make_command(order: AgentOrder) -> AgentCommand:
    argv, env, files = ["qwen", "--yolo", "-o", "stream-json"], {**QUIET}, {}
    if order.endpoint:
        argv += ["--auth-type", "openai"]
        env |= {
            **order.endpoint.key_variables,
            "OPENAI_BASE_URL": order.endpoint.openai_url,
            "OPENAI_MODEL": order.endpoint.model,
        }
        files[".qwen/settings.json"] = endpoint_settings("openai")
    return AgentCommand((*argv, *common_options(order)), env, files)


DRIVER = AgentDriver(
    name="qwen",
    program="qwen",
    install="npm install -g @qwen-code/qwen-code",
    make_command=make_command,
    read_line=functools.partial(claude.read_line, is_cached_apart=False),
    credentials=(".qwen/oauth_creds.json",),
    settings=(".qwen/settings.json",),
    variables=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
    login="qwen, then /auth",
    counts_all_parts=True,
)
