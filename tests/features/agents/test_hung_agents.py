"""Real agents with their own login, whose provider never answers: resumed once, then the work goes elsewhere.

LOOPTY_AGENTS=FOLDER .venv/bin/pytest -m registry tests/features/agents/test_hung_agents.py
"""

import json
import os

import pytest

from loopty.record.agent_accounts import AgentPartEnded

from ...end_to_end.conftest import CODE_TASK
from ...end_to_end.serving import table
from ...end_to_end.test_agent_command import of_type
from ...models.server import ScriptedServer, hang
from .test_real_agents import programs_of

pytestmark = pytest.mark.registry

FLEET = """
[proposer]
kind = "agent"
timeout_seconds = 900
[[proposer.agents]]
agent = "{agent}"
{options}
[[proposer.agents]]
agent = "command"
name = "other"
command = ["sh", "-c", "echo 9 > src/x.txt; echo SUMMARY: nine"]
"""


def logins(agent: str, url: str) -> tuple[dict[str, str], dict[str, str], str]:
    """The variables, the files below the home, and the options of an agent whose provider is at this address."""
    if agent == "claude":
        return {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": url}, {}, ""
    variables = {
        "OPENAI_API_KEY": "sk-test-0123456789",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": "gpt-5-mini",
    }
    if agent == "qwen":
        settings = {"security": {"auth": {"selectedType": "openai"}}}
        return variables, {".qwen/settings.json": json.dumps(settings)}, ""
    provider = (
        f'model_providers.p={{name="p", base_url="{url}/v1", env_key="OPENAI_API_KEY", wire_api="responses"}}'
    )
    options = f"args = {json.dumps(['-c', provider, '-c', 'model_provider=p', '-m', 'gpt-5-mini'])}"
    return variables, {}, options


@pytest.mark.parametrize("agent", ["claude", "qwen", "codex"])
def test_an_agent_whose_provider_hangs_is_resumed_once_and_then_another_does_the_work(
    agent,
    place,
    shelf,
    monkeypatch,
    tmp_path,
):
    monkeypatch.setenv("PATH", f"{programs_of(agent, shelf)}:{os.environ['PATH']}")
    with ScriptedServer(hang) as server:
        variables, files, options = logins(agent, server.url)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        home = tmp_path / "home"
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        monkeypatch.setenv("HOME", str(home))
        task = CODE_TASK.format(attempts=1) + table("noise", repeat="never")
        place.write("loopty.toml", task + FLEET.format(agent=agent, options=options))
        process = place.start("optimize")
        out, err = process.communicate(timeout=580)
    assert process.returncode == 0, f"{out}\n{err}"
    first, second, *_ = parts = of_type(place, AgentPartEnded)
    assert [part.configuration.name for part in parts[:2]] == [agent, agent], parts
    assert {first.stall, second.stall} <= {"silent", "slow"}, parts
    assert (first.is_resumed, second.is_resumed, second.stalls_before) == (True, False, 1), parts
    assert parts[-1].configuration.name == "other"
    node = place.history()["1.1"]
    assert (node.operator, node.outcome.metrics["score"]) == ("other", 9)
    print([(part.reason, part.stalled_seconds, part.seconds) for part in parts[:2]])
