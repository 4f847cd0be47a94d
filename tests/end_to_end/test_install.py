"""`loopty agent install` and `uninstall`, as a user runs them, with a home of their own."""

import json
import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loopty.features.agents.hosts.table import HOSTS
from loopty.version import __version__


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path

    def loopty(self, *args: str) -> subprocess.CompletedProcess:
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CODEX_", "CLAUDE_"))
        }
        return subprocess.run(
            [sys.executable, "-m", "loopty", *args],
            cwd=self.path,
            env={**env, "HOME": str(self.path)},
            capture_output=True,
            text=True,
        )

    def changed(self, *args: str) -> list[str]:
        done = self.loopty(*args, "--json")
        assert done.returncode == 0, done.stderr
        return [path for row in json.loads(done.stdout) for path in row["changed"]]

    def files(self) -> dict[str, str]:
        """The text of each file of the user's, by its path; loopty's own state and cache are not among them."""
        own = {self.path / ".local/state/loopty", self.path / ".cache/loopty"}
        found = (path for path in self.path.rglob("*") if path.is_file() and own.isdisjoint(path.parents))
        return {str(path.relative_to(self.path)): path.read_text() for path in found}


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def test_every_host_gets_its_tools_and_skills_and_loses_them_again(home):
    assert home.changed("install", *HOSTS)
    files = home.files()
    assert tomllib.loads(files[".codex/config.toml"])["mcp_servers"]["loopty"]["args"][-1] == "mcp"
    assert json.loads(files[".claude/settings.json"])["permissions"]["allow"] == ["mcp__loopty"]
    for file in (".claude.json", ".gemini/settings.json", ".qwen/settings.json", ".cursor/mcp.json"):
        assert json.loads(files[file])["mcpServers"]["loopty"]["args"][-1] == "mcp"
    assert json.loads(files[".config/opencode/opencode.json"])["mcp"]["loopty"]["command"][-1] == "mcp"
    for plugin in (".config/opencode/plugin/loopty.js", ".pi/agent/extensions/loopty.ts"):
        assert "__PROGRAM__" not in files[plugin]
        assert "loopty" in files[plugin]
    assert f"loopty {__version__}" in files[".agents/skills/loopty-optimize/SKILL.md"]
    assert files[".claude/skills/loopty-report/SKILL.md"]
    assert home.changed("install", *HOSTS) == []
    home.changed("uninstall", *HOSTS)
    assert home.files() == {}


def test_skills_stay_until_the_last_host_that_shares_them_goes(home):
    home.changed("install", "codex", "pi")
    home.changed("uninstall", "codex")
    assert ".agents/skills/loopty-optimize/SKILL.md" in home.files()
    home.changed("uninstall", "pi")
    assert home.files() == {}


def test_the_users_own_settings_stay(home):
    settings = home.path / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(
        '{\n  "permissions": {\n    "allow": [\n      "Bash(ls)"\n    ]\n  },\n  "model": "x"\n}\n'
    )
    before = home.files()
    home.changed("install", "claude")
    assert json.loads(settings.read_text())["permissions"]["allow"] == ["Bash(ls)", "mcp__loopty"]
    home.changed("uninstall", "claude")
    assert home.files() == before


def test_a_file_that_cannot_be_edited_stops_the_whole_installation(home):
    settings = home.path / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.write_text("{ // mine\n}")
    done = home.loopty("install", "gemini")
    assert done.returncode == 2
    assert '"trust": true' in done.stderr
    assert home.files() == {".gemini/settings.json": "{ // mine\n}"}


def test_a_file_of_the_users_beside_a_skill_stays(home):
    home.changed("install", "codex")
    note = home.path / ".agents/skills/loopty-optimize/notes.md"
    note.write_text("mine")
    home.changed("uninstall", "codex")
    assert home.files() == {".agents/skills/loopty-optimize/notes.md": "mine"}


@pytest.mark.parametrize("what", ["deep", "fifo", "device", "folder", "dangling", "dangling folder"])
def test_strange_settings_get_one_line_and_stay(home, what):
    settings = home.path / ".gemini/settings.json"
    settings.parent.mkdir()
    if what == "deep":
        settings.write_text('{"a":' * 100_000 + "{}" + "}" * 100_000)
    elif what == "fifo":
        os.mkfifo(settings)
    elif what == "device":
        settings.symlink_to("/dev/zero")
    elif what == "folder":
        settings.mkdir()
    elif what == "dangling":
        settings.symlink_to(home.path / "nowhere/settings.json")
    else:
        settings.parent.rmdir()
        settings.parent.symlink_to("nowhere")
    done = home.loopty("install", "gemini")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(home.path / ".gemini") in done.stderr.splitlines()[0]
    assert not (home.path / "nowhere").exists()
    assert not (home.path / ".agents").exists()


def test_a_link_of_the_users_stays_a_link(home):
    (home.path / "dotfiles").mkdir()
    (home.path / ".codex").mkdir()
    (home.path / "dotfiles/config.toml").write_text("model = 'x'\n")
    (home.path / ".codex/config.toml").symlink_to(home.path / "dotfiles/config.toml")
    home.changed("install", "codex")
    assert (home.path / ".codex/config.toml").is_symlink()
    assert "loopty" in (home.path / "dotfiles/config.toml").read_text()


def test_doctor_says_whether_the_installation_fits_this_version(home):
    def finding() -> dict:
        rows = json.loads(home.loopty("doctor", "--agent", "codex", "--json").stdout)
        return next(row for row in rows if row["name"] == "tools and skills in Codex")

    assert "loopty agent install codex" in finding()["detail"]
    home.changed("install", "codex")
    assert finding()["ok"]
    skill = home.path / ".agents/skills/loopty-optimize/SKILL.md"
    skill.write_text(skill.read_text().replace(f"loopty {__version__}", "loopty 0.0.1"))
    assert not finding()["ok"]
    assert "loopty agent install codex" in finding()["detail"]
    home.changed("install", "codex")
    assert finding()["ok"]


def test_a_dry_run_changes_nothing(home):
    done = home.loopty("install", "codex", "--dry-run")
    assert "[mcp_servers.loopty]" in done.stdout
    assert home.files() == {}


def test_without_a_host_the_hosts_are_listed(home):
    home.changed("install", "pi")
    rows = json.loads(home.loopty("install", "--json").stdout)
    assert [row["host"] for row in rows] == [*HOSTS]
    assert [row["host"] for row in rows if row["installed"]] == ["pi"]


def test_hosts_that_are_installed_at_once_are_all_remembered(home):
    with ThreadPoolExecutor() as pool:
        assert all(pool.map(lambda host: home.loopty("install", host).returncode == 0, HOSTS))
    rows = json.loads(home.loopty("install", "--json").stdout)
    assert all(row["installed"] for row in rows)


def test_without_a_host_there_is_nothing_to_remove(home):
    done = home.loopty("uninstall")
    assert (done.returncode, done.stderr) == (2, "loopty: name a host: `loopty agent install` lists them\n")
