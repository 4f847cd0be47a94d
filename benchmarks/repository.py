"""Create git repositories of a given number of small files, and the plain environment for commands in them."""

import os
from collections.abc import Mapping
from pathlib import Path

from cost import run_for_output

_FILES_PER_FOLDER = 250


def environment(home: Path) -> dict[str, str]:
    """The environment of every measured command: no user configuration, a git identity, no network calls."""
    home.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "bench",
        "GIT_AUTHOR_EMAIL": "bench@localhost",
        "GIT_COMMITTER_NAME": "bench",
        "GIT_COMMITTER_EMAIL": "bench@localhost",
        "EVO_SKIP_VERSION_CHECK": "1",
        "EVO_TELEMETRY": "0",
    }


def create(path: Path, files: int, env: Mapping[str, str]) -> Path:
    """Create and commit a repository of `files` files; `src0/file0.py` is the one that a task may edit."""
    for number in range(files):
        file = path / f"src{number // _FILES_PER_FOLDER}" / f"file{number}.py"
        if number % _FILES_PER_FOLDER == 0:
            file.parent.mkdir(parents=True)
        file.write_text(f"VALUE = {number}\n")
    start(path, env)
    return path


def start(path: Path, env: Mapping[str, str]) -> None:
    """Make a repository of the files in a folder."""
    run_for_output(["git", "init", "--quiet", "--initial-branch=main"], path, env)
    commit_all(path, env)


def commit_all(path: Path, env: Mapping[str, str]) -> None:
    run_for_output(["git", "add", "--all"], path, env)
    run_for_output(["git", "commit", "--quiet", "--message=state"], path, env)
