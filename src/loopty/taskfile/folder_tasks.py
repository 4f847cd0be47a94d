"""Tasks of a folder that is a project of its own inside a larger repository."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from loopty.kit.globs import literal
from loopty.kit.records import replace
from loopty.taskfile.task_draft import TaskDraft
from loopty.taskfile.task_proposal import propose_tasks
from loopty.workspaces.repository_facts import repository_facts

_PROJECT_FILES = (
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "Makefile",
    "CMakeLists.txt",
    "meson.build",
    "configure.ac",
)
"""What the folder of a project has; `tests/` or `src/` of a project have none of them."""


def folder_tasks(top: Path, files: Sequence[str], start: Path) -> list[TaskDraft]:
    """What `init` proposes in this folder of the repository; nothing where the folder is no project of its own.

    A program beside its evaluator is one, too: so are the examples of OpenEvolve.
    """
    top, start = top.resolve(), start.resolve()
    if start == top or not start.is_relative_to(top):
        return []
    folder = start.relative_to(top).as_posix()
    inside = [path.removeprefix(f"{folder}/") for path in files if path.startswith(f"{folder}/")]
    facts = repository_facts(top / folder, inside)
    if not (facts.evaluated_programs or any(name in inside for name in _PROJECT_FILES)):
        return []
    return [_in_folder(draft, folder) for draft in propose_tasks(facts)]


def _in_folder(draft: TaskDraft, folder: str) -> TaskDraft:
    """The draft as it is from the top of the repository, where trials start."""
    start = f"cd {shlex.quote(folder)} && "

    def below(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{literal(folder)}/{name}" for name in names)

    gates = (
        replace(gate, command=start + gate.command, smaller=tuple(start + line for line in gate.smaller))
        for gate in draft.gates
    )
    return replace(
        draft,
        command=start + draft.command,
        write=below(draft.write),
        files=below(draft.files),
        scratch=tuple(f"{folder}/{name}" for name in draft.scratch),
        gates=tuple(gates),
    )
