"""Folders of packages and of builds that git does not ignore."""

import subprocess

import pytest

from loopty.domain.errors import Misuse
from loopty.features.setup.installed_folders import environment_folders, without_installed
from loopty.features.setup.repository_facts import repository_facts
from loopty.git.repository import Repository

FILES = [
    "env/conda-meta/history",
    "env/lib/a.py",
    "pkg/core.py",
    "sub/node_modules/x/node_modules/y/i.js",
    "target/CACHEDIR.TAG",
    "target/debug/a.rs",
    "tool/.venv/lib/python3.11/site-packages/x.py",
    "tool/.venv/pyvenv.cfg",
    "build/lib.linux-x86_64-cpython-311/pkg/core.py",
    "build/notes.py",
]


def test_environments_and_builds_are_known_by_what_tools_leave_in_them():
    assert environment_folders(FILES) == ["env", "sub/node_modules", "tool/.venv"]
    assert list(without_installed(FILES)) == ["pkg/core.py"]
    assert list(without_installed(["build/a.py", "env/b.py"])) == ["build/a.py", "env/b.py"]


def test_an_environment_is_no_source(tmp_path):
    assert repository_facts(tmp_path, FILES).sources == ("pkg/core.py",)


def test_an_environment_that_git_does_not_ignore_is_ignored_in_this_clone_alone(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in ("a.py", "my [env]/pyvenv.cfg", "my [env]/b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    tree = Repository.open(tmp_path).working_tree
    tree.ignore_here(environment_folders(tree.untracked_paths()))
    assert tree.untracked_paths() == ["a.py"]
    assert tree.paths_that_git_ignores() == ["my [env]"]
    assert not (tmp_path / ".gitignore").exists()


def test_the_list_of_what_git_ignores_is_never_written_through_a_link(tmp_path):
    top, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
    subprocess.run(["git", "init", "-q", top], check=True)
    excluded = top / ".git/info/exclude"
    excluded.unlink(missing_ok=True)
    excluded.symlink_to(elsewhere)
    with pytest.raises(Misuse, match="make it a file"):
        Repository.open(top).working_tree.ignore_here(["env"])
    assert not elsewhere.exists()
    excluded.unlink()
    excluded.write_text("*.o")
    Repository.open(top).working_tree.ignore_here(["env", "line\nbreak"])
    assert excluded.read_text() == "*.o\n/env/\n"
