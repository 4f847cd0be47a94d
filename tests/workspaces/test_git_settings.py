"""What git said about a repository is known to the next process, until a file that decides changes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from loopty.git import settings, working_tree
from loopty.git.repository import Repository

from .conftest import User


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/loopty"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The git commands that were run."""
    found: list[str] = []
    run = working_tree.GitCommand.run_bytes

    def note(self: working_tree.GitCommand, *args: str, **options: object) -> bytes:
        found.append(args[0])
        return run(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(working_tree.GitCommand, "run_bytes", note)
    return found


def as_another_process(user: User) -> Repository:
    settings._known.clear()
    working_tree._CHECKED.clear()
    return user.repository


def age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the files be older than those that may be written again at the same instant."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10**10)


def test_the_next_process_does_not_ask_git(
    user: User, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user.commits({"a": "1"})
    user.git("config", "gc.auto", "0")
    age(monkeypatch)
    for _ in range(3):
        repository = as_another_process(user)
        assert repository.program_settings() == {}
        assert "\0gc.auto\n0" in repository.git.settings
        assert "\0loopty.branches" not in repository.git.settings
        assert repository.working_tree.foreign_state_path() is None
    assert commands == ["config", "ls-files"]


def test_no_secret_of_a_configuration_is_kept(
    user: User, cache: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user.commits({"a": "1"})
    user.git("config", "http.https://h/.extraheader", "AUTHORIZATION: basic secret-token")
    age(monkeypatch)
    for _ in range(2):
        assert as_another_process(user).program_settings() == {}
    (kept,) = (cache / "git-settings").iterdir()
    assert "secret" not in kept.read_text()
    assert "http" not in kept.read_text()
    assert commands == ["config"]


def test_a_configuration_that_chooses_programs_is_listed_each_time(
    user: User, cache: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user.commits({"a": "1"})
    user.git("config", "filter.x.smudge", "program")
    age(monkeypatch)
    for _ in range(2):
        assert set(as_another_process(user).program_settings()) == {"filter.x.smudge"}
    assert commands == ["config", "config"]
    assert not cache.exists()


def test_what_was_written_just_now_is_asked_for_each_time(user: User, commands: list[str]) -> None:
    user.commits({"a": "1"})
    user.git("config", "user.name", "u")
    for _ in range(2):
        repository = as_another_process(user)
        repository.program_settings()
        repository.working_tree.foreign_state_path()
    assert commands == ["config", "ls-files"] * 2


def replace_with_old_times(path: Path, change: Callable[[bytes], bytes]) -> None:
    status = path.stat()
    path.write_bytes(change(path.read_bytes()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_changed_configuration_is_seen_whatever_its_date(
    user: User, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user.commits({"a": "1"})
    user.git("config", "player.x.smudge", "program")
    age(monkeypatch)
    assert set(as_another_process(user).program_settings()) == set()
    replace_with_old_times(user.top / ".git/config", lambda raw: raw.replace(b"player", b"filter"))
    assert set(as_another_process(user).program_settings()) == {"filter.x.smudge"}
    assert commands == ["config", "config"]


def test_a_path_in_the_folder_of_loopty_that_is_tracked_later_is_found(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.commits({"a": "1"})
    age(monkeypatch)
    assert as_another_process(user).working_tree.foreign_state_path() is None
    (user.top / ".loopty").mkdir()
    (user.top / ".loopty/x").write_text("1")
    user.git("add", "--force", ".loopty/x")
    for _ in range(2):
        assert as_another_process(user).working_tree.foreign_state_path() == ".loopty/x"


def test_a_configuration_that_includes_another_one_is_listed_each_time(
    user: User, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user.commits({"a": "1"})
    user.git("config", "include.path", "other")
    age(monkeypatch)
    for _ in range(2):
        as_another_process(user).program_settings()
    assert commands == ["config", "config"]


def test_an_answer_of_another_form_or_that_others_can_write_is_not_used(
    user: User, cache: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user.commits({"a": "1"})
    age(monkeypatch)
    as_another_process(user).program_settings()
    (kept,) = (cache / "git-settings").iterdir()
    content = json.loads(kept.read_text())
    kept.write_text(json.dumps({**content, "data": ["no text"]}))
    as_another_process(user).program_settings()
    (kept,) = (cache / "git-settings").iterdir()
    kept.chmod(0o622)
    as_another_process(user).program_settings()
    assert commands == ["config"] * 3
