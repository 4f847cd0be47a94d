"""A program in place of the candidate's: its functions call the candidate in a sandbox of its own.

An evaluator of another tool loads it as it would load the candidate, whose code never is in its process.
"""

from __future__ import annotations

import os
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_SECONDS = 24 * 3600.0
"""Of a call: the trial has its own limit."""


def write_program(program: str, names: Sequence[str]) -> str:
    """Write a program with these functions, and return its path."""
    top = os.environ.get("EVO_WORKTREE") or os.getcwd()  # noqa: PTH109
    inner = os.path.relpath(os.path.abspath(program), top)  # noqa: PTH100
    folder = tempfile.mkdtemp(prefix="program-")
    path = f"{folder}/{os.path.basename(program)}"  # noqa: PTH119
    lines = ["from loopty_sdk.isolated_program import function", ""]
    lines += [f"{name} = function({f'{inner}:{name}'!r})" for name in names]
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow to import
        file.write("\n".join(lines) + "\n")
    return path


def function(target: str) -> Callable[..., Any]:
    """Make a function that calls the candidate's."""
    from .candidates import candidate

    called = candidate(target, seconds=_SECONDS)

    def call(*values: Any, **named: Any) -> Any:
        return called(*values, **named)

    call.__name__ = target.rpartition(":")[2]
    return call
