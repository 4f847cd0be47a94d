"""A task of another tool: what was recognised, and how it is wired."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from loopty.features.setup.peers.plain_yaml import read_yaml
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.paths import literal
from loopty.kit.records import Record, field, replace
from loopty.kit.untrusted_files import source_text

EVALUATE = "python3 -m loopty_sdk.evaluate_program"
MAX = "max"
NOTHING = "0"
TIMEOUT = 300.0
"""Seconds for an evaluation whose tool or config names none."""
_MOST_GOAL = 4_000
_MOST_SEALED = 40
_LOADED = (".py", ".json", ".jsonl", ".csv", ".npy", ".npz", ".sh")


class TaskFolder(Record):
    """A folder that may hold a task, with its files by their paths in it."""

    top: Path
    files: tuple[str, ...]

    def has(self, *names: str) -> bool:
        return all(name in self.files for name in names)

    def first(self, *names: str) -> str:
        """Return the first of these files that is there, or nothing."""
        return next((name for name in names if name in self.files), "")

    def text(self, path: str) -> str:
        return source_text(self.top / path) if path else ""

    def settings(self, path: str) -> Mapping[str, Any]:
        """Read a settings file; empty without one."""
        return read_yaml(self.text(path))

    def sealed(self, evaluator: str, program: str) -> tuple[str, ...]:
        """Name the evaluator, and what it may load of the files beside it."""
        place = PurePosixPath(evaluator).parent
        beside = [
            path
            for path in self.files
            if PurePosixPath(path).parent == place
            and PurePosixPath(path).suffix in _LOADED
            and path not in (evaluator, program)
        ]
        return tuple(map(literal, (evaluator, *(beside if len(beside) <= _MOST_SEALED else ()))))

    def beside(self, stem: str) -> str:
        """Return the only file at the top with this name before its suffix, or nothing."""
        found = [path for path in self.files if "/" not in path and PurePosixPath(path).stem == stem]
        return found[0] if len(found) == 1 else ""


class Isolation(Record):
    """The task with the program in a sandbox of its own; or why that cannot be."""

    draft: TaskDraft | None = None
    names: tuple[str, ...] = ()
    reason: str = ""


class PeerTask(Record):
    """What was recognised in a folder."""

    tool: str
    what: str
    """The files that say so."""
    draft: TaskDraft
    new_files: Mapping[str, str] = field(default_factory=dict)
    """Files that the task needs and the folder lacks, as the candidate that a script holds as text."""
    isolation: Isolation | None = None
    """The program in a sandbox of its own; None where nothing is known about that."""
    refusal: str = ""
    """Why it cannot run here, with the remedy; empty if it can."""

    def from_nothing(self) -> PeerTask:
        """Return the task for an empty program: it is worth nothing, and the evaluator is not asked."""
        why = f"an empty program scores {NOTHING}; name less after --empty where programs that work score less"
        draft = replace(self.draft, command=f"{self.draft.command} --empty {NOTHING}", stages=())
        return replace(self, draft=draft.with_note("command", why), isolation=None)

    @property
    def sentence(self) -> str:
        """Say in one line what was recognised."""
        return f"recognised {self.tool}: {self.what}"


def setting(settings: Mapping[str, Any], *keys: str) -> Any:
    """Return the value under these keys, one in another; None without one."""
    found: Any = settings
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def number(value: Any, least: float = 0.0) -> float | None:
    """Return the value if it is a finite number above this one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and found > least else None


def goal(text: Any) -> str:
    """Return a text as the goal of a task; of a long one its beginning."""
    return text.strip()[:_MOST_GOAL] if isinstance(text, str) else ""


def parsed(text: str) -> Sequence[ast.stmt]:
    """Parse the statements of a file of Python; none of what is no Python."""
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def functions(body: Sequence[ast.stmt]) -> dict[str, ast.FunctionDef]:
    """Return the functions at the top of a file, by name."""
    return {one.name: one for one in body if isinstance(one, ast.FunctionDef)}


def assigned(body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """Return what names at the top of a file are set to, by name."""
    return {
        target.id: one.value
        for one in body
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
