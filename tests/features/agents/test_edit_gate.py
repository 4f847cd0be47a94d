"""Claude Code, installed from its registry, with loopty's hooks: an edit through its shell is refused at submit.

LOOPTY_AGENTS=FOLDER .venv/bin/pytest -m registry tests/features/agents/test_edit_gate.py
"""

import os
import shlex
import subprocess
import sys

import pytest

from ...end_to_end.test_mcp import TASK
from ...models.server import ScriptedServer
from .agent_model import agent_model
from .test_real_agents import programs_of

pytestmark = pytest.mark.registry


def test_an_edit_through_the_shell_of_claude_code_is_refused_at_submit(place, shelf, tmp_path):
    place.write("loopty.toml", TASK.format(attempts=3))
    place.commit()
    place.loopty("run", "1")
    loopty = f"{shlex.quote(sys.executable)} -m loopty tool"
    draft = place.top / ".loopty/drafts/1.1/src/x.txt"
    steps = (
        f"{loopty} open hypothesis=nine # loopty tool open",
        f"echo 9 > {draft}",
        f"{loopty} submit id=1.1 > {tmp_path}/reply # loopty tool submit",
    )
    home = tmp_path / "home"
    home.mkdir()
    env = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{programs_of('claude', shelf)}:{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "sk-test-0123456789",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
        "LOOPTY_CLIENT": "claude",
    }
    env.pop("CLAUDE_CONFIG_DIR", None)
    subprocess.run([sys.executable, "-m", "loopty", "install", "claude"], env=env, cwd=place.top, check=True)
    with ScriptedServer(agent_model(*steps)) as server:
        command = ["claude", "-p", "--dangerously-skip-permissions", "Go on"]
        done = subprocess.run(
            command,
            cwd=place.top,
            env={**env, "ANTHROPIC_BASE_URL": server.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert draft.read_text() == "9\n", "no hook sees what a shell writes"
    reply = (tmp_path / "reply").read_text()
    assert "src/x.txt was changed while no subagent was at work" in reply
    assert place.history()["1.1"].draft
