"""The login of a coding agent: copied in, and copied back only where it was renewed and nothing else happened."""

import json

import pytest

from loopty.features.agents.start import AgentLogin
from loopty.kit.safe_folder import SafeFolder
from loopty.proposers.agent.driver import load_driver
from loopty.proposers.agent.work import AgentChoice


@pytest.fixture
def user_home(tmp_path):
    home = tmp_path / "user"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex/auth.json").write_text('{"token": "old"}')
    (home / ".codex/config.toml").write_text('notify = ["program"]')
    return home


@pytest.fixture
def agent_home(tmp_path):
    return SafeFolder(tmp_path, ("agent",)).make()


def login_at(home, agent: str = "codex", **environ: str) -> AgentLogin:
    return AgentLogin(load_driver(agent), AgentChoice(agent), {"HOME": str(home), **environ})


def test_an_agent_gets_its_login_and_no_settings_that_name_programs(user_home, agent_home):
    login_at(user_home).copy_into(agent_home)
    assert agent_home.below(".codex").names() == ["auth.json"]


def test_a_renewed_login_is_copied_back(user_home, agent_home):
    login = login_at(user_home)
    login.copy_into(agent_home)
    before = login.credentials()
    agent_home.below(".codex").file("auth.json").write(b'{"token": "new"}')
    login.copy_back(agent_home, before)
    kept = user_home / ".codex/auth.json"
    assert json.loads(kept.read_text()) == {"token": "new"}
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("left", ["nonsense", "[]", "", "a link", "nothing"])
def test_anything_else_that_an_agent_leaves_is_not_copied_back(user_home, agent_home, left):
    login = login_at(user_home)
    login.copy_into(agent_home)
    before = login.credentials()
    file = agent_home.below(".codex").file("auth.json")
    if left in ("a link", "nothing"):
        file.remove()
        if left == "a link":
            file.shown_path.symlink_to(user_home / ".codex/config.toml")
    else:
        file.write(left.encode())
    login.copy_back(agent_home, before)
    assert (user_home / ".codex/auth.json").read_text() == '{"token": "old"}'


def test_a_login_that_the_user_renewed_meanwhile_stays(user_home, agent_home):
    login = login_at(user_home)
    login.copy_into(agent_home)
    before = login.credentials()
    (user_home / ".codex/auth.json").write_text('{"token": "mine"}')
    agent_home.below(".codex").file("auth.json").write(b'{"token": "new"}')
    login.copy_back(agent_home, before)
    assert (user_home / ".codex/auth.json").read_text() == '{"token": "mine"}'


def test_a_login_is_found_where_the_user_moved_it_or_in_a_variable(user_home, tmp_path):
    assert login_at(user_home).is_there
    assert not login_at(tmp_path / "empty").is_there
    assert login_at(tmp_path / "empty", CODEX_HOME=str(user_home / ".codex")).is_there
    assert login_at(tmp_path / "empty", OPENAI_API_KEY="k").variables == {"OPENAI_API_KEY": "k"}
    assert login_at(tmp_path / "empty", "command").is_there


def test_the_own_file_of_claude_code_is_found_beside_its_folder(tmp_path):
    (tmp_path / ".claude.json").write_text("{}")
    assert login_at(tmp_path, "claude").files == {".claude/.claude.json": tmp_path / ".claude.json"}
