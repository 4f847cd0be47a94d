"""What trials see of the user's programs: what their commands need, and never settings or keys."""

import base64
import hashlib
import os
from pathlib import Path

import pytest

from loopty.sandboxes.installations import editable_folders, installation_of, repository_environments
from loopty.sandboxes.toolchain import command_programs, user_toolchain


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path.resolve() / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOMODCACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{home}/.cargo/bin:{home}/.local/bin:{home}/secrets/bin:/usr/bin:/bin")
    for path in (
        ".cargo/registry/x",
        ".cargo/credentials.toml",
        ".rustup/settings.toml",
        ".ssh/id_rsa",
        "go/pkg/mod/m",
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("")
    for path in (
        ".cargo/bin/cargo",
        ".local/share/uv/tools/ruff/bin/ruff",
        "secrets/bin/tool",
        ".local/bin/other",
    ):
        _program(home / path)
    (home / ".local/bin/ruff").symlink_to(home / ".local/share/uv/tools/ruff/bin/ruff")
    (home / ".local/bin/key").symlink_to(home / ".ssh/id_rsa")
    return home


def _program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def _environment(folder: Path, python: str = "/usr/bin/python3") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "lib/python3.11/site-packages/numpy-2.0.dist-info").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /root/.ssh\n")
    (folder / "bin/python").symlink_to(python)
    return folder


def shown(home: Path, *words: str, top: Path | None = None, environments=()) -> set[str]:
    prefixes = user_toolchain(frozenset(words), top, environments).prefixes
    return {str(prefix.relative_to(home)) for prefix in prefixes if prefix.is_relative_to(home)}


def test_nothing_of_the_home_is_shown_to_a_command_that_needs_nothing_of_it(home):
    assert shown(home, "python3", "make", "cat") == set()


def test_cargo_comes_with_its_packages_and_without_its_tokens(home):
    assert shown(home, "cargo", "bench") == {".cargo/bin", ".cargo/registry", ".rustup"}
    tools = user_toolchain(frozenset({"cargo"}))
    assert tools.variables["CARGO_NET_OFFLINE"] == "true"
    assert f"{home}/.cargo/bin" in tools.path.split(":")


def test_packages_from_git_are_shown_only_where_the_lock_file_names_one(home, tmp_path):
    (home / ".cargo/git").mkdir()
    assert ".cargo/git" not in shown(home, "cargo", top=tmp_path)
    (tmp_path / "Cargo.lock").write_text('source = "git+https://example.org/x"\n')
    assert ".cargo/git" in shown(home, "cargo", top=tmp_path)


def test_go_comes_with_its_modules(home):
    assert shown(home, "go") == {"go/pkg/mod"}


def test_a_linked_program_comes_with_its_installation(home):
    assert shown(home, "ruff") == {".local/bin/ruff", ".local/share/uv/tools/ruff"}
    assert f"{home}/.local/bin" in user_toolchain(frozenset({"ruff"})).path.split(":")


def test_a_program_in_an_unknown_folder_is_not_shown(home):
    assert shown(home, "tool") == set()


def test_no_word_of_a_command_shows_a_key(home):
    words = ("id_rsa", ".ssh", "credentials.toml", "../.ssh/id_rsa", str(home / ".ssh"), "~", "*")
    assert shown(home, *words) == set()
    for path in (".ssh/id_rsa", ".aws/credentials", ".cargo/credentials.toml", ".config/gh/hosts.yml", ".npmrc"):
        assert installation_of(home / path, home) is None
    assert installation_of(home / ".pyenv/versions", home) is None


def test_an_environment_of_the_repository_cannot_name_other_folders(home, tmp_path):
    top = tmp_path / "repo"
    hostile = _environment(top / ".venv", str(home / ".ssh/id_rsa"))
    assert shown(home, "python3", top=top, environments=[hostile]) == set()
    (home / ".pyenv/versions/3.12.1/bin").mkdir(parents=True)
    own = _environment(top / "venv", str(home / ".pyenv/versions/3.12.1/bin/python3"))
    assert shown(home, "python3", top=top, environments=[own]) == {".pyenv/versions/3.12.1"}


def test_environments_are_known_by_what_is_in_them(home, tmp_path):
    top = tmp_path.resolve() / "repo"
    _environment(top / ".venv")
    (top / "web/node_modules/left-pad").mkdir(parents=True)
    (top / "data").mkdir()
    (top / "linked").symlink_to(home / ".ssh")
    (top / "node_modules").symlink_to(home)
    found = repository_environments(top, [".venv", "web/node_modules", "data", "linked", "node_modules", "gone"])
    assert [one.path for one in found] == [".venv", "web/node_modules"]
    assert [one.programs for one in found] == [".venv/bin", "web/node_modules/.bin"]


def test_the_digest_of_an_environment_changes_with_its_packages_alone(tmp_path):
    folder = _environment(tmp_path.resolve() / ".venv")
    (one,) = repository_environments(tmp_path.resolve(), [".venv"])
    before = one.digest
    (folder / "lib/python3.11/site-packages/__pycache__").mkdir()
    assert one.digest == before
    (folder / "lib/python3.11/site-packages/scipy-1.0.dist-info").mkdir()
    assert one.digest != before


def test_editable_installs_name_folders_of_the_repository(tmp_path):
    folder = _environment(tmp_path / ".venv")
    path = folder / "lib/python3.11/site-packages/it.pth"
    path.write_text(f"import os\n/elsewhere\n{tmp_path}/src\n{tmp_path}\n")
    assert list(editable_folders(folder, tmp_path)) == ["src", "."]


def test_packages_that_a_finder_maps_are_imported_from_their_folder(tmp_path):
    packages = tmp_path / ".venv/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    finder = packages / "__editable___pkg_1_0_finder.py"
    mapping = {"pkg": f"{tmp_path}/src/pkg", "other": f"{tmp_path}/elsewhere", "far": "/srv/far"}
    finder.write_text(f"import sys\nMAPPING: dict[str, str] = {mapping!r}\nNAMESPACES = {{}}\n")
    assert list(editable_folders(tmp_path / ".venv", tmp_path)) == ["src"]
    finder.write_text("MAPPING = {__import__('os').abort()}\n")
    assert list(editable_folders(tmp_path / ".venv", tmp_path)) == []


def test_programs_of_scripts_and_make_files_count(tmp_path):
    (tmp_path / "Makefile").write_text("bench:\n\tcargo bench\n")
    (tmp_path / "run.sh").write_text("exec poetry run it\n")
    (tmp_path / "bench.py").write_text('# go there\nsubprocess.run(["node", "x.js"])\n')
    (tmp_path / "link.sh").symlink_to("/etc/passwd")
    words = command_programs(
        ["make bench", ("sh", "./run.sh"), "sh link.sh; sh ../up.sh; python3 bench.py"], tmp_path.resolve()
    )
    assert {"make", "cargo", "poetry", "sh", "node"} <= words
    assert not {"root", "go"} & words


def test_poetry_finds_the_environment_that_it_keeps_for_this_repository(home, tmp_path):
    top = tmp_path.resolve()
    digest = base64.urlsafe_b64encode(hashlib.sha256(os.fsencode(top)).digest()).decode()[:8]
    _environment(home / f".cache/pypoetry/virtualenvs/mine-{digest}-py3.11")
    _environment(home / ".cache/pypoetry/virtualenvs/other-AAAAAAAA-py3.11")
    tools = user_toolchain(frozenset({"poetry"}), top)
    assert shown(home, "poetry", top=top) == {f".cache/pypoetry/virtualenvs/mine-{digest}-py3.11"}
    assert tools.path.startswith(tools.variables["VIRTUAL_ENV"])
