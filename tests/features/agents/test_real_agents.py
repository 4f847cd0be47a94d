"""Real coding agents, installed from their registries, edit a file and get a score, with a model on loopback.

    LOOPTY_AGENTS=FOLDER .venv/bin/pytest -m registry tests/features/agents/test_real_agents.py

FOLDER is kept between runs; without it, a temporary one is used.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ...end_to_end.conftest import CODE_TASK, NUMBER_BENCH
from ...end_to_end.serving import model, table
from ...models.server import ScriptedServer
from .agent_model import agent_model

pytestmark = pytest.mark.registry

# The versions that were tried; newer ones of some need another Node.
NPM = {
    "codex": "@openai/codex@0.166.0",
    "claude": "@anthropic-ai/claude-code@2.1.197",
    "opencode": "opencode-ai@1.18.18",
    "gemini": "@google/gemini-cli@0.61.0",
    "qwen": "@qwen-code/qwen-code@0.15.10",
    "pi": "@earendil-works/pi-coding-agent@0.74.2",
    "codex-acp": "@zed-industries/codex-acp@0.16.0",
    "claude-acp": "@zed-industries/claude-code-acp@0.16.2",
}
ADAPTERS = ("codex-acp", "claude-acp")
PIP = {"mini-swe-agent": ("mini-swe-agent==2.4.6", "mcp>=2.3"), "aider": ("aider-chat==0.86.2",)}
PROVIDERS = {"claude": "anthropic", "claude-acp": "anthropic", "gemini": "google"}
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}


def programs_of(agent: str, shelf: Path) -> Path:
    """The folder with the agent's program, installed if need be."""
    if agent in NPM:
        folder = shelf / "npm" / agent
        if not (folder / "node_modules/.bin").exists():
            folder.mkdir(parents=True)
            run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", NPM[agent])
        return folder / "node_modules/.bin"
    folder = shelf / "v" / agent
    if not (folder / "bin/pip").exists():
        run(sys.executable, "-m", "venv", str(folder))
        run(str(folder / "bin/pip"), "install", "-q", *PIP[agent])
    return folder / "bin"


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")


SCRIPTS = {
    "gemini": """
mkdir -p ~/.gemini
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > ~/.gemini/settings.json
exec gemini --acp --skip-trust -m "$LOOPTY_AGENT_MODEL"
""",
    "qwen": """
mkdir -p ~/.qwen
echo '{"security": {"auth": {"selectedType": "openai"}}}' > ~/.qwen/settings.json
export OPENAI_MODEL="$LOOPTY_AGENT_MODEL"
exec qwen --acp --auth-type openai -m "$LOOPTY_AGENT_MODEL"
""",
    "opencode": """
mkdir -p ~/.config/opencode
M="$LOOPTY_AGENT_MODEL"
cat > ~/.config/opencode/opencode.json <<END
{"autoupdate": false, "share": "disabled", "model": "own/$M", "small_model": "own/$M",
 "enabled_providers": ["own"], "provider": {"own": {"npm": "@ai-sdk/openai-compatible", "name": "own",
  "options": {"baseURL": "$OPENAI_BASE_URL", "apiKey": "$OPENAI_API_KEY"},
  "models": {"$M": {"name": "$M", "tool_call": true, "limit": {"context": 128000, "output": 8192}}}}}}
END
export OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1
exec opencode acp --pure
""",
    "codex-acp": """
mkdir -p ~/.codex
cat > ~/.codex/config.toml <<END
model = "$LOOPTY_AGENT_MODEL"
model_provider = "own"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[feedback]
enabled = false
[features]
plugins = false
apps = false
plugin_discovery_prefetch = false
[model_providers.own]
name = "own"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
END
exec codex-acp
""",
    "claude-acp": """
export ANTHROPIC_MODEL="$LOOPTY_AGENT_MODEL" ANTHROPIC_SMALL_FAST_MODEL="$LOOPTY_AGENT_MODEL" IS_SANDBOX=1
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
exec claude-code-acp
""",
}
"""How each agent that speaks the Agent Client Protocol is started; the last two are adapters of other agents."""


@pytest.mark.parametrize(
    "agent", [*(name for name in NPM if name not in ADAPTERS), *PIP, *(f"acp:{name}" for name in SCRIPTS)]
)
def test_an_agent_edits_a_file_and_gets_a_score(agent, place, shelf, monkeypatch, tmp_path):
    agent, _, program = agent.partition(":")
    command = {"command": SCRIPTS[program]} if program else {}
    program = program or agent
    programs = programs_of(program, shelf)
    if command:  # programs of a task file's command are shown only where a user installs them
        node = tmp_path / "home/.nvm/versions/node/v20"
        node.parent.mkdir(parents=True)
        node.symlink_to(programs.parents[1])
        programs = node / "node_modules/.bin"
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    provider = PROVIDERS.get(program, "openai")
    with ScriptedServer(agent_model("echo 9 > src/x.txt; echo 1 > bench.sh; cat src/x.txt")) as server:
        if provider in KEYS:
            monkeypatch.setenv(KEYS[provider], "sk-test-0123456789")
            config = tmp_path / "config/loopty/config.toml"
            config.parent.mkdir(parents=True)
            config.write_text(table("keys", **{KEYS[provider]: server.url}))
        place.write(
            "loopty.toml",
            CODE_TASK.format(attempts=1)
            + table("noise", repeat="never")
            + model(server, provider=provider, input_usd=1.0, output_usd=2.0)
            + table("roles.evolver", model="near", tokens=100_000)
            + table("proposer", kind="agent", agent=agent, timeout_seconds=400, **command),
        )
        process = place.start("optimize")
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, f"{out}\n{err}\n{[request.path for request in server.requests]}"
    node = place.history()["1.1"]
    assert (node.operator, node.outcome.metrics["score"]) == (agent, 9)
    assert "nine is more" in node.summary
    calls = 1 if agent == "aider" else 2
    assert place.json("spend")["total"]["tokens"] >= calls * 120
    assert (place.top / "bench.sh").read_text() == NUMBER_BENCH
