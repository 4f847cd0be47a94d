"""The scripts that a command starts: they run before the program, and print or publish its result."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from loopty.causes.absent_results import CPU_TIMER
from loopty.workspaces.repository_facts import RepositoryFacts

_SCRIPT = re.compile(r".*\.(?:py|[cm]?js|ts|sh|bash|pl|rb|lua|jl|php|[rR]|tcl)")
_TIMERS = frozenset(("time", "hyperfine", "perf"))
"""What measures a program from outside: the script that comes after it is the program."""
_MAKE = re.compile(r"\b(?:make|gmake)\b([^&;|]*)")
_NODE_SCRIPT = re.compile(r"\b(?:npm|yarn|pnpm)(?: (?:run|run-script|--silent|-s))* ([\w:.-]+)")
_DEEPEST = 4


def scripts_of_command(facts: RepositoryFacts, command: str) -> tuple[str, ...]:
    """Name the files of the repository that a shell line starts, through make and package.json, too.

    A program that marks what may change is none: its text outside the blocks stays as it is.
    """
    found = dict.fromkeys(_scripts(facts, command, 0))
    return tuple(path for path in found if path not in facts.programs)


def _scripts(facts: RepositoryFacts, line: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST or CPU_TIMER in line:
        return
    for part in re.split(r"&&|\|\||[;|\n]", line):
        words = _words(part)
        started = (path for word in words if (path := _script(facts, word)))
        if not set(words[:2]) & _TIMERS and (first := next(started, "")):
            yield first  # those after it are its arguments
    for targets in _MAKE.findall(line):
        for name in targets.split():
            yield from _scripts(facts, facts.recipes.get(name, ""), depth + 1)
    for name in _NODE_SCRIPT.findall(line):
        yield from _scripts(facts, facts.node_scripts.get(name, ""), depth + 1)


def _script(facts: RepositoryFacts, word: str) -> str:
    """Name the script that a word of a command means: a path, or a module after `-m`; empty where it is none."""
    path = posixpath.normpath(word)
    if path in facts.files:
        return path if _SCRIPT.fullmatch(path) else ""
    module = f"{word.replace('.', '/')}.py"
    return module if re.fullmatch(r"[A-Za-z_][\w.]*", word) and module in facts.files else ""


def _words(part: str) -> list[str]:
    """Split a command into words; a recipe may begin with signs of make."""
    try:
        return shlex.split(part.strip().lstrip("@-+"))
    except ValueError:
        return part.split()
