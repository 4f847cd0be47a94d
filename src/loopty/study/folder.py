"""The folder of a study: a small git repository of its own with the task, the objective's source and the ledger.

So every verb works in it: `loopty status`, `loopty tree`, `loopty dashboard`.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import subprocess
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.git.command import git_argv
from loopty.git.folders import environment_without_git
from loopty.taskfile.schema import toml_text

SOURCE_FILE = "objective.py"
PROGRAM_FILE = "program.py"
REFUSAL = [
    "python3",
    "-c",
    "raise SystemExit('this score comes from a Python function: run your script again')",
]
"""The benchmark of a study. A task with another one is somebody else's."""
_AUTHOR = ("-c", "user.name=loopty", "-c", "user.email=loopty@localhost", "-c", "commit.gpgsign=false")


def is_study(folder: Path) -> bool:
    """Say whether there is a study in this folder, and not a repository of the caller's."""
    if not has_task(folder):
        return False
    try:
        task = tomllib.loads((folder / TASK_FILE).read_text())
    except (OSError, ValueError):
        return False
    benchmark = task.get("benchmark")
    return isinstance(benchmark, dict) and benchmark.get("command") == REFUSAL


def has_task(folder: Path) -> bool:
    """Say whether this folder is a repository with a task."""
    return (folder / ".git").is_dir() and (folder / TASK_FILE).is_file()


def write_folder(
    folder: Path, task: Mapping[str, Any], files: Mapping[str, str], program: Mapping[str, str] | None = None
) -> None:
    """Write the task and the files, in a new repository if there is none, which begins with the program.

    Raises Misuse for a folder of others, and for a study that began with another program.
    """
    is_new = not is_study(folder)
    if is_new and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Misuse(f"{folder} holds other files: name a folder that is empty, or not there yet")
    if not is_new:
        _require_same(folder, task, program or {})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = {name: text for name, text in (program or {}).items() if not (folder / name).exists()}
        for name, text in {**files, **missing, TASK_FILE: toml_text(task)}.items():
            path = folder / name
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
    except OSError as error:
        raise Misuse(f"cannot write to {folder} ({error.strerror}): name another folder") from None
    if is_new:
        _run_git(folder, "init", "--quiet")
        _run_git(folder, "add", "--all")
        _run_git(folder, *_AUTHOR, "commit", "--quiet", "--no-verify", "-m", "The study begins")


def _require_same(folder: Path, task: Mapping[str, Any], program: Mapping[str, str]) -> None:
    known = tomllib.loads((folder / TASK_FILE).read_text())
    if known.get("access") != task["access"]:
        raise Misuse(f"{folder} has a study of something else: name another folder")
    for name, text in program.items():
        first = _run_git(folder, "rev-list", "--max-parents=0", "HEAD").split()[-1]
        if _run_git(folder, "show", f"{first}:{name}") != text.replace("\r\n", "\n").replace("\r", "\n"):
            raise Misuse(f"{folder} evolves another program, which began as its {name}: name another folder")


def source_text(function: Callable[..., Any] | None) -> str:
    """Return the source of a function, without comments; a digest of its code where there is no source.

    When it changes, scores are no longer comparable. Functions that it calls are not looked at.
    """
    if function is None:
        return ""
    inner = inspect.unwrap(function)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inner)))
        if isinstance(tree.body[0], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return ast.unparse(tree) + "\n"
    except (OSError, TypeError, SyntaxError, IndexError):
        pass
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    stated = _code_text(code) if code else f"{type(inner).__module__}.{type(inner).__qualname__}"
    digest = hashlib.sha256(stated.encode()).hexdigest()[:16]
    return f"# {getattr(inner, '__qualname__', type(inner).__qualname__)}: no source, its code is {digest}\n"


def _code_text(code: Any) -> str:
    constants = [_code_text(each) if hasattr(each, "co_code") else repr(each) for each in code.co_consts]
    return f"{code.co_code!r} {constants} {code.co_names}"


def _run_git(folder: Path, *words: str) -> str:
    argv, environ = git_argv("-C", str(folder), *words), environment_without_git(os.environ)
    done = subprocess.run(argv, capture_output=True, text=True, env=environ)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it gave no reason"]
        raise Misuse(f"git cannot prepare {folder}: {lines[-1]}")
    return done.stdout
