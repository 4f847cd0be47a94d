"""What Gemini CLI and Qwen Code, which comes from it, have in common: settings and options."""

from __future__ import annotations

import json

from loopty.agents.agent_driver import AgentOrder

_QUIET_SETTINGS = {
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
}


def endpoint_settings(login: str) -> str:
    """The settings file with a served model: quiet, and with this kind of login."""
    return json.dumps({**_QUIET_SETTINGS, "security": {"auth": {"selectedType": login}}})


def common_options(order: AgentOrder) -> tuple[str, ...]:
    """The model, the session to resume, the user's arguments and the prompt."""
    model = order.endpoint.model if order.endpoint else order.model
    return (
        *(("-m", model) if model else ()),
        *(("--resume", order.session) if order.session else ()),
        *order.args,
        "-p",
        order.prompt,
    )
