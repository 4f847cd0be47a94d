"""Trials run the same programs as the user's shell: its `python3`, and what their commands call."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loopty.kit.program_answers import ProgramAnswers
from loopty.kit.records import Record, field
from loopty.sandboxes.installations import installation_of, steps_to
from loopty.sandboxes.tool_caches import tool_caches
from loopty.sandboxes.virtual_environment import interpreter_installations, is_virtual_environment

# Every sandbox shows these anyway.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")


class Toolchain(Record):
    """Directories outside the system's that trials need, and the trials' search path and variables."""

    prefixes: tuple[Path, ...]
    path: str
    variables: Mapping[str, str] = field(default_factory=dict)
    installations: tuple[str, ...] = ()
    """Names of the installations that the commands need besides Python."""


def user_toolchain(
    programs: Collection[str] = (),
    top: Path | None = None,
    environments: Sequence[Path] = (),
    answers: ProgramAnswers | None = None,
) -> Toolchain:
    """The user's Python with its environment, and what the called programs need, unless they are the system's.

    `top` is the repository. `environments` are inside it and shown there, so they are no part of the toolchain;
    their interpreters are. `answers` are what programs have said about themselves.
    """
    home = _home()
    python = _user_python(answers or ProgramAnswers())
    caches = list(tool_caches(programs, top, home, os.environ))
    found = [
        *(path for name in sorted(programs) for path in _program_installations(name, home)),
        *(path for cache in caches for path in cache.folders),
        *(path for folder in environments for path in interpreter_installations(folder, home)),
    ]
    # A tool may be an environment itself, whose interpreter is elsewhere.
    found += [
        path
        for folder in found
        if is_virtual_environment(folder)
        for path in interpreter_installations(folder, home)
    ]
    extra = [path for path in found if not _is_below(path, environments)]
    needed = list(_outermost((*(python.prefixes if python else ()), *extra), environments))
    shown = [*map(Path, _SYSTEM), *needed, *environments]
    active = next((cache.variables["VIRTUAL_ENV"] for cache in caches if "VIRTUAL_ENV" in cache.variables), None)
    first = [*([f"{active}/bin"] if active else []), *([str(python.executable.parent)] if python else [])]
    rest = [
        entry
        for entry in os.environ.get("PATH", "").split(":")
        if entry and (_is_below(Path(entry), shown) or any(path.parent == Path(entry) for path in needed))
    ]
    return Toolchain(
        tuple(needed),
        ":".join(dict.fromkeys([*first, *rest, "/usr/bin", "/bin"])),
        {name: value for cache in caches for name, value in cache.variables.items()},
        tuple(sorted({str(path.resolve()).removeprefix(f"{home}/") for path in extra})),
    )


def _home() -> Path:
    """The user's home; a user without an entry in the list of users may have none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def _outermost(prefixes: Iterable[Path], environments: Sequence[Path]) -> Iterator[Path]:
    """The prefixes that neither the system, nor an environment, nor another prefix shows."""
    needed, known = [*map(Path, _SYSTEM), *environments], list(prefixes)
    # Under both its own and its resolved name: links in an environment point at either.
    for prefix in dict.fromkeys((*known, *(prefix.resolve() for prefix in known))):
        if not _is_below(prefix, needed):
            needed.append(prefix)
            yield prefix


def _program_installations(name: str, home: Path) -> Iterator[Path]:
    """The installations in the user's home to which a program of the user's search path leads."""
    if (program := shutil.which(name)) is None:
        return
    for step in steps_to(Path(program)):
        if (found := installation_of(step, home)) and found.exists():
            yield found


def is_shown_by_default(path: Path, prefixes: tuple[Path, ...]) -> bool:
    """Whether every sandbox shows this path, given the prefixes of the user's toolchain."""
    return _is_below(path, [*map(Path, _SYSTEM), *prefixes])


class _Python(Record):
    executable: Path
    prefixes: tuple[Path, ...]


def _user_python(answers: ProgramAnswers) -> _Python | None:
    python = shutil.which("python3")
    if python is None:
        return None
    if Path(python).resolve() == Path(sys.executable).resolve():
        if Path(python).parent == Path(sys.prefix, "bin"):
            return _Python(Path(python), (Path(sys.base_prefix), Path(sys.prefix)))
        if not any((folder / "pyvenv.cfg").exists() for folder in Path(python).parents[:2]):
            return _Python(Path(python), (Path(sys.base_prefix),))
    # It may be a shim that picks the real interpreter by its own rules, so we ask it.
    script = "import sys; print(sys.executable, sys.base_prefix, sys.prefix, sep='\\n')"
    try:
        executable, *prefixes = answers.output(python, "-I", "-c", script).splitlines()
    except ValueError:
        return None
    return _Python(Path(executable), tuple(map(Path, prefixes)))


def _is_below(path: Path, prefixes: Sequence[Path]) -> bool:
    return any(path == prefix or prefix in path.parents for prefix in prefixes)
