"""Real coding agents, installed from their registries, edit a file and get a score, with a model on loopback.

    LOOPTY_AGENTS=FOLDER .venv/bin/pytest -m registry tests/agents/test_real_agents.py

FOLDER is kept between runs; without it, a temporary one is used.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..end_to_end.conftest import CODE_TASK, NUMBER_BENCH, Place
from ..end_to_end.serving import model, table
from ..models.server import ScriptedServer
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
}
PIP = {"mini-swe-agent": ("mini-swe-agent==2.4.6", "mcp>=2.3"), "aider": ("aider-chat==0.86.2",)}
PROVIDERS = {"claude": "anthropic", "gemini": "google"}
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}


@pytest.fixture(scope="session")
def shelf(tmp_path_factory) -> Path:
    """Where the agents are installed."""
    return Path(os.environ.get("LOOPTY_AGENTS") or tmp_path_factory.mktemp("agents"))


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


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    """A repository whose score is a number in a file."""
    place = Place(tmp_path / "repo")
    place.top.mkdir()
    place.git("init", "-q")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.commit()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return place


GEMINI_BY_PROTOCOL = """
mkdir -p ~/.gemini
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' > ~/.gemini/settings.json
exec gemini --acp --skip-trust -m "$LOOPTY_AGENT_MODEL"
"""


@pytest.mark.parametrize("agent", [*NPM, *PIP, "acp"])
def test_an_agent_edits_a_file_and_gets_a_score(agent, place, shelf, monkeypatch, tmp_path):
    program, command = ("gemini", {"command": GEMINI_BY_PROTOCOL}) if agent == "acp" else (agent, {})
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
