"""`loopty doctor --agent`, and the agents that `loopty init` finds."""

import json
import os

import pytest

from loopty.features.setup.proposal_text import agents_text
from loopty.proposers.agent.driver import installed_agents

FAKE = """#!/bin/sh
if test "$1" = --version; then echo "fake-codex 1.2.3"; exit; fi
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"item.completed","item":{"type":"agent_message","text":"ready"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":1}}'
"""


@pytest.fixture
def codex(place, tmp_path, monkeypatch):
    """A program named codex on the search path."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "codex").write_text(FAKE)
    (folder / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return place


def test_doctor_says_how_to_install_an_agent_that_is_missing(place, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = place.loopty("doctor", "--agent", "qwen", code=1)
    assert "not installed: npm install -g @qwen-code/qwen-code" in done.stdout


def test_doctor_knows_version_and_login_and_asks_only_when_told_to(codex, tmp_path):
    found = {row["name"]: row for row in codex.json("doctor", "--agent", "codex")}
    assert "fake-codex 1.2.3" in found["agent codex"]["detail"]
    assert "none found: codex login" in found["login of codex"]["detail"]
    assert "not installed: `loopty agent install codex`" in found["tools and skills in Codex"]["detail"]
    assert len(found) == 3
    (tmp_path / "home/.codex").mkdir(parents=True)
    (tmp_path / "home/.codex/auth.json").write_text("{}")
    rows = codex.json("doctor", "--agent", "codex", "--ask")
    assert rows[1]["ok"]
    assert rows[3]["detail"] == "it answered 'ready', 11 tokens"


def test_an_agent_that_does_not_run_is_not_there(codex, tmp_path):
    assert "codex" in installed_agents()
    (tmp_path / "programs/codex").write_text("#!/bin/sh\necho 'node: not found' >&2\nexit 127\n")
    assert "codex" not in installed_agents()
    rows = json.loads(codex.loopty("doctor", "--agent", "codex", "--json", code=1).stdout)
    assert "codex does not run: node: not found; npm install" in rows[0]["detail"]


def test_an_agent_without_login_and_without_a_model_is_refused_with_the_remedy(codex):
    codex.write("bench.sh", 'echo "{\\"score\\": 1}" > "$EVO_RESULT_PATH"\n')
    codex.write("src/x.txt", "5\n")
    codex.write(
        "loopty.toml",
        '[benchmark]\ncommand = "sh bench.sh"\ntimeout_seconds = 20\n[access]\nwrite = ["src/**"]\n'
        '[proposer]\nkind = "agent"\nagent = "codex"\n',
    )
    codex.commit()
    assert "codex has no login here: codex login; or name a model" in codex.loopty("optimize", code=2).stderr


def test_init_recommends_the_agents_that_it_found():
    text = agents_text(["codex", "pi"])
    assert 'agent = "codex"' in text
    assert "also found: pi" in text
