"""Any command as a coding agent: it reads its prompt from a file, edits the tree, and prints what it did."""

from __future__ import annotations

from loopty.proposers.agent.driver import QUIET, THINKS_SILENTLY, AgentCommand, AgentDriver, AgentOrder
from loopty.proposers.agent.stream import plain_text


def make_command(order: AgentOrder) -> AgentCommand:
    env = {**QUIET, "LOOPTY_PROMPT_FILE": order.prompt_file, "LOOPTY_AGENT_SESSION": order.session}
    if order.model:
        env["LOOPTY_AGENT_MODEL"] = order.model
    if order.endpoint:
        env |= {
            **order.endpoint.key_variables,
            "LOOPTY_AGENT_MODEL": order.endpoint.model,
            "OPENAI_BASE_URL": order.endpoint.openai_url,
            "OPENAI_API_BASE": order.endpoint.openai_url,
            "ANTHROPIC_BASE_URL": order.endpoint.address,
            "GOOGLE_GEMINI_BASE_URL": order.endpoint.address,
        }
    return AgentCommand((*order.command, *order.args), env)


DRIVER = AgentDriver(
    name="command",
    program="",
    install="",
    make_command=make_command,
    read_line=plain_text,
    can_resume=False,
    silence_seconds=THINKS_SILENTLY,
    streams=False,
)
