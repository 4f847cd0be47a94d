"""Between two pieces of work, a git process waits: it is used again only where a new one would be the same."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopty.kit import work_end
from loopty.kit.work_end import at_process_end, end_process, end_work
from loopty.workspaces import git_settings, resting_git
from loopty.workspaces.repository import Repository

from .conftest import User


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of other tests, a home without configuration, and files that count as old at once."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for module, name in ((work_end, "_functions"), (work_end, "_last_functions")):
        monkeypatch.setattr(module, name, {})
    monkeypatch.setattr(git_settings, "_known", {})
    monkeypatch.setattr(resting_git, "_resting", {})
    monkeypatch.setattr(git_settings, "_YOUNG_NS", -(1 << 60))
    yield
    end_process()


def _work(user: User, commit: str) -> Repository:
    """One piece of work that reads the configuration and an object."""
    repository = user.repository
    repository.program_settings()
    assert repository.content(commit, "a.txt") == b"a"
    end_work()
    return repository


def _resting_processes() -> list[int]:
    return [child.pid for child in resting_git._resting.values()]


def test_the_next_work_uses_the_same_process(user: User) -> None:
    commit = user.commits({"a.txt": "a"})
    _work(user, commit)
    [first] = _resting_processes()
    _work(user, commit)
    assert _resting_processes() == [first]
    end_process()
    assert not _resting_processes()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_process_that_was_killed_at_rest_is_replaced(user: User) -> None:
    commit = user.commits({"a.txt": "a"})
    _work(user, commit)
    [child] = resting_git._resting.values()
    child.kill()
    child.wait()
    _work(user, commit)
    assert len(_resting_processes()) == 1


def test_a_changed_configuration_is_read_by_a_new_process(user: User) -> None:
    commit = user.commits({"a.txt": "a"})
    _work(user, commit)
    [first] = _resting_processes()
    user.git("config", "filter.x.clean", "evil")
    assert user.repository.program_settings() == {"filter.x.clean": "evil"}
    _work(user, commit)
    assert first not in _resting_processes()[1:]
    assert len(_resting_processes()) == 2


def test_a_new_file_of_the_user_is_read(user: User, tmp_path: Path) -> None:
    user.commits({"a.txt": "a"})
    repository = user.repository
    repository.program_settings()
    (tmp_path / ".gitconfig").write_text("[loopty]\n\tbranches = true\n")
    repository.program_settings()
    assert "loopty.branches" in repository.git.settings


@pytest.mark.parametrize("is_young", [True, False])
def test_what_may_change_unseen_is_listed_each_time(
    user: User, monkeypatch: pytest.MonkeyPatch, is_young: bool
) -> None:
    commit = user.commits({"a.txt": "a"})
    if is_young:
        monkeypatch.setattr(git_settings, "_YOUNG_NS", 1 << 60)
    else:
        user.git("config", "include.path", "elsewhere")
    _work(user, commit)
    assert not git_settings._known
    assert not _resting_processes()


def test_a_listing_is_asked_for_once(user: User) -> None:
    user.commits({"a.txt": "a"})
    asked: list[int] = []
    git = user.repository.git

    def ask() -> str:
        asked.append(1)
        return "local\0a.b\nc\0"

    for _ in range(2):
        assert git_settings.settings_listing(str(git.git_dir), git.env, ask) == "local\0a.b\nc\0"
    assert len(asked) == 1


def test_what_is_left_for_the_process_comes_after_the_last_work() -> None:
    called: list[int] = []
    at_process_end(functools.partial(called.append, 2))
    work_end.at_work_end(functools.partial(called.append, 1))
    end_work()
    assert called == [1]
    end_process()
    assert called == [1, 2]
