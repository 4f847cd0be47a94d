"""Codex, installed from its registry, in its default sandbox and under a real model's name, makes an experiment.

LOOPTY_AGENTS=FOLDER .venv/bin/pytest -m registry tests/features/agents/test_codex_tools.py
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from loopty.domain.trial import Verdict

from ...end_to_end.test_mcp import TASK
from ...models.server import ScriptedServer
from .agent_model import code_mode_model
from .test_real_agents import programs_of

pytestmark = pytest.mark.registry

CONFIG = """
model = "gpt-6.1-sol"
model_provider = "loopback"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
[mcp_servers.loopty]
command = {python}
args = ["-m", "loopty.cli.main", "mcp"]
default_tools_approval_mode = "approve"
tool_timeout_sec = 60
"""
PROGRAMS = (
    "text(await tools.mcp__loopty__context({}))",
    "text(await tools.mcp__loopty__open({hypothesis: 'nine is more', surface: 'the number'}))",
    "text(await tools.exec_command({cmd: 'echo 9 > .loopty/drafts/1.1/src/x.txt; touch .git/x; echo $?'}))",
    "text(await tools.mcp__loopty__submit({id: '1.1'}))",
    "text(await tools.mcp__loopty__wait({ticket: '1.1'}))",
    "text(await tools.mcp__loopty__wait({ticket: '1.1'}))",
    "text(await tools.mcp__loopty__note({text: 'nine works', id: '1.1'}))",
)


@pytest.fixture
def home():
    """A home for Codex. Not in /tmp: its sandbox has a /tmp of its own, and would not find its program again."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def test_codex_makes_an_experiment_in_its_default_sandbox(place, shelf, home):
    place.write("loopty.toml", TASK.format(attempts=3))
    place.commit()
    (home / ".codex").mkdir()
    quiet = [word for name in ("plugins", "apps", "plugin_discovery_prefetch") for word in ("--disable", name)]
    command = [
        str(programs_of("codex", shelf) / "codex"),
        "exec",
        *quiet,
        "--json",
        "--sandbox",
        "workspace-write",
    ]
    with ScriptedServer(code_mode_model(*PROGRAMS)) as server:
        config = CONFIG.format(url=server.url, python=json.dumps(sys.executable))
        (home / ".codex/config.toml").write_text(config)
        env = {**os.environ, "HOME": str(home), "OPENAI_API_KEY": "sk-test-0123456789"}
        done = subprocess.run(
            [*command, "Go on"], cwd=place.top, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        asked = json.loads(server.requests[-1].raw)["input"]
    outputs = [item["output"][-1]["text"] for item in asked if item["type"] == "custom_tool_call_output"]
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    node = place.history()["1.1"]
    assert node.verdict is Verdict.KEPT, json.dumps(outputs)
    assert node.author.startswith("codex")
    assert node.outcome.metrics["score"] == 9
    assert "@2 kept" in "".join(outputs)
