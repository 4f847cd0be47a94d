"""Claude Code, by Anthropic: `claude -p`."""

from __future__ import annotations

from loopty.agents import claude_stream
from loopty.agents.agent_driver import QUIET, AgentCommand, AgentDriver, AgentOrder

_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_BUG_COMMAND": "1",
}


def make_command(order: AgentOrder) -> AgentCommand:
    argv = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
    argv.append("--include-partial-messages")  # a long thought is then no silence
    # The sandbox is ours; the program asks for this before it runs without asking.
    env = {**QUIET, **_QUIET, "IS_SANDBOX": "1", "CLAUDE_CONFIG_DIR": f"{order.home}/.claude"}
    model = order.model
    if order.endpoint:
        model = order.endpoint.model
        argv.append("--bare")  # otherwise it looks for a login; with one, it would not use it
        env |= {
            **order.endpoint.key_variables,
            "ANTHROPIC_BASE_URL": order.endpoint.address,
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_SMALL_FAST_MODEL": model,
        }
    if model:
        argv += ["--model", model]
    if order.session:
        argv += ["--resume", order.session]
    return AgentCommand((*argv, *order.args, "--", order.prompt), env, {".claude/.keep": ""})


DRIVER = AgentDriver(
    name="claude",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code",
    make_command=make_command,
    read_line=claude_stream.read_line,
    credentials=(".claude/.credentials.json",),
    # With CLAUDE_CONFIG_DIR, the program reads its own file from that folder.
    settings=(".claude/.claude.json",),
    variables=("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    home_variables={"CLAUDE_CONFIG_DIR": ".claude"},
    login="claude, then /login",
)
