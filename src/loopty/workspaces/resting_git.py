"""Git processes between two pieces of work of one process: they wait for a session that would start their like."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from loopty.kit.work_end import at_process_end
from loopty.workspaces.git_settings import State, known_state

_MOST_AT_REST = 8

Child = subprocess.Popen[bytes]
_Key = tuple[int, tuple[str, ...], tuple[tuple[str, str], ...], str, State]
_resting: dict[_Key, Child] = {}
"""By the process that started them (not a fork of it), command line, environment, directory, and the state of
git's configuration when they rested."""


def rest_git(argv: Sequence[str], env: Mapping[str, str], cwd: Path, children: list[Child]) -> None:
    """Let the process of a session wait for the next one; ends it where that could be another one then."""
    while children:
        child, key = children.pop(), _key(argv, env, cwd)
        if key is None or key in _resting or child.poll() is not None:
            close_git(child)
            continue
        at_process_end(_close_all)
        _resting[key] = child
        if len(_resting) > _MOST_AT_REST:
            close_git(_resting.pop(next(iter(_resting))))


def wake_git(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Child | None:
    """A process that waits and is the same as a new one would be, or None."""
    key = _key(argv, env, cwd)
    return _resting.pop(key, None) if key else None


def close_git(child: Child) -> None:
    for stream in (child.stdin, child.stdout):
        with contextlib.suppress(OSError):
            if stream:
                stream.close()
    child.wait()


def _close_all() -> None:
    while _resting:
        key, child = _resting.popitem()
        if key[0] == os.getpid():  # in a fork, others may have the numbers of its files
            close_git(child)


def _key(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> _Key | None:
    state = known_state(str(cwd), env)
    return None if state is None else (os.getpid(), tuple(argv), tuple(sorted(env.items())), str(cwd), state)
