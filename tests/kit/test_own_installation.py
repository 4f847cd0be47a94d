"""The command that adds an extra fits how loopty was installed."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from loopty.kit import installation
from loopty.kit.installation import extra_command, package_command

PIP = [sys.executable, "-m", "pip", "install"]


@pytest.fixture
def note(monkeypatch: pytest.MonkeyPatch):
    """Say what the installer noted about the origin of loopty."""

    def set_origin(origin: dict | None) -> None:
        monkeypatch.setattr(installation, "_origin", lambda: origin)

    return set_origin


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an environment that a tool made for loopty."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "loopty"))
    (tmp_path / "loopty").mkdir()
    return tmp_path / "loopty"


def test_a_clone_is_named_by_its_path_with_spaces_too(note, tmp_path):
    clone = tmp_path / "my clone"
    clone.mkdir()
    note({"url": clone.as_uri(), "dir_info": {}})
    assert shlex.split(extra_command("models")) == [*PIP, f"{clone}[models]"]
    note({"url": clone.as_uri(), "dir_info": {"editable": True}})
    assert shlex.split(extra_command("models")) == [*PIP, "--editable", f"{clone}[models]"]


def test_a_wheel_is_named_by_its_file_as_long_as_that_is_there(note, tmp_path):
    wheel = tmp_path / "loopty-1-py3-none-any.whl"
    wheel.touch()
    note({"url": wheel.as_uri(), "archive_info": {}})
    assert shlex.split(extra_command("ray"))[-1] == f"{wheel}[ray]"
    wheel.unlink()
    assert shlex.split(extra_command("ray"))[-1] == f"PATH/{wheel.name}[ray]"


def test_what_came_from_elsewhere_is_named_by_its_address(note):
    note({"url": "https://host/loopty.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}})
    assert shlex.split(extra_command("ray"))[-1] == "loopty[ray] @ git+https://host/loopty.git@abc"
    note({"url": "https://host/loopty-1.whl", "archive_info": {}})
    assert shlex.split(extra_command("ray"))[-1] == "loopty[ray] @ https://host/loopty-1.whl"
    note(None)
    assert shlex.split(extra_command("ray")) == [*PIP, "loopty[ray]"]


def test_uv_keeps_the_extras_that_it_has_installed(note, prefix):
    receipt = (
        '[tool]\nrequirements = [{ name = "loopty", extras = ["models"] }, { name = "other", extras = ["x"] }]\n'
    )
    (prefix / "uv-receipt.toml").write_text(receipt)
    note(None)
    assert shlex.split(extra_command("ray")) == ["uv", "tool", "install", "loopty[models,ray]"]


def test_pipx_installs_into_its_own_environment(note, prefix):
    (prefix / "pipx_metadata.json").write_text(json.dumps({}))
    note(None)
    assert shlex.split(extra_command("ray")) == ["pipx", "runpip", "loopty", "install", "loopty[ray]"]
    assert shlex.split(package_command("x[y]")) == ["pipx", "inject", "loopty", "x[y]"]


def test_an_environment_without_pip_is_left_to_uv(note, monkeypatch):
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda _: None)
    note(None)
    assert shlex.split(package_command("x")) == ["uv", "pip", "install", "--python", sys.executable, "x"]


def test_every_command_comes_from_here():
    source = Path(installation.__file__).parents[1]
    texts = {path.relative_to(source): path.read_text() for path in source.rglob("*.py")}
    own = Path("kit/installation.py")
    assert [str(path) for path, text in texts.items() if "loopty[" in text and path != own] == []
