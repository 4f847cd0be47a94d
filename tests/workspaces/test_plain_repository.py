"""A repository is found without git exactly where nothing about it is special."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from loopty.git.folders import GitFolders, plain_repository


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    top = tmp_path / "top"
    (top / "below" / "here").mkdir(parents=True)
    git(top, "init", "--quiet")
    git(top, "commit", "--allow-empty", "--quiet", "--message", "first")
    return top


def test_a_plain_repository_is_found_as_git_finds_it(repository):
    here = repository / "below" / "here"
    found = plain_repository(here)
    assert found == (repository, repository / ".git", repository / ".git")
    assert str(found[0]) == git(here, "rev-parse", "--show-toplevel")
    assert GitFolders.find(here) == GitFolders(*found)


def test_a_head_without_a_branch_is_plain(repository):
    git(repository, "checkout", "--quiet", "--detach")
    assert plain_repository(repository) is not None


@pytest.mark.parametrize(
    "setting", ["core.worktree=/tmp", "include.path=/tmp/x", "extensions.worktreeConfig=true"], ids=str
)
def test_a_special_configuration_is_left_to_git(repository, setting):
    git(repository, "config", *setting.split("="))
    assert plain_repository(repository) is None


def test_a_further_working_tree_and_a_link_are_left_to_git(repository, tmp_path):
    git(repository, "worktree", "add", "--quiet", "--detach", str(tmp_path / "further"))
    assert plain_repository(tmp_path / "further") is None
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".git").symlink_to(repository / ".git")
    assert plain_repository(tmp_path / "linked") is None


def test_a_folder_that_may_be_a_bare_repository_is_left_to_git(repository):
    inner = repository / "below" / "bare"
    git(repository, "init", "--quiet", "--bare", str(inner))
    assert plain_repository(inner / "refs") is None
    assert plain_repository(repository / ".git" / "objects") is None


def test_a_git_directory_that_is_no_repository_is_left_to_git(repository):
    (repository / ".git" / "HEAD").write_text("nothing\n")
    assert plain_repository(repository) is None
