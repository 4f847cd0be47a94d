"""Trials run the same `python3` as the user's shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Every sandbox shows these anyway.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Directories outside the system's that trials need, and the trials' search path."""

    prefixes: tuple[Path, ...]
    path: str


def user_toolchain() -> Toolchain:
    """The user's Python and its virtual environment, unless they are the system's."""
    python = _user_python()
    needed: list[Path] = []
    prefixes = python.prefixes if python else ()
    # Under both its own and its resolved name: links in an environment point at either.
    for prefix in dict.fromkeys((*prefixes, *(prefix.resolve() for prefix in prefixes))):
        if not _is_below(prefix, [*map(Path, _SYSTEM), *needed]):
            needed.append(prefix)
    shown = [*map(Path, _SYSTEM), *needed]
    first = [str(python.executable.parent)] if python else []
    rest = [entry for entry in os.environ.get("PATH", "").split(":") if entry and _is_below(Path(entry), shown)]
    return Toolchain(tuple(needed), ":".join(dict.fromkeys([*first, *rest, "/usr/bin", "/bin"])))


def is_shown_by_default(path: Path, prefixes: tuple[Path, ...]) -> bool:
    """Whether every sandbox shows this path, given the prefixes of the user's toolchain."""
    return _is_below(path, [*map(Path, _SYSTEM), *prefixes])


@dataclass(frozen=True, slots=True)
class _Python:
    executable: Path
    prefixes: tuple[Path, ...]


def _user_python() -> _Python | None:
    python = shutil.which("python3")
    if python is None:
        return None
    if Path(python).resolve() == Path(sys.executable).resolve() and Path(python).parent == Path(sys.prefix, "bin"):
        return _Python(Path(python), (Path(sys.base_prefix), Path(sys.prefix)))
    # It may be a shim that picks the real interpreter by its own rules, so we ask it.
    script = "import sys; print(sys.executable, sys.base_prefix, sys.prefix, sep='\\n')"
    try:
        output = subprocess.run([python, "-I", "-c", script], capture_output=True, text=True, timeout=20).stdout
        executable, *prefixes = output.splitlines()
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return _Python(Path(executable), tuple(map(Path, prefixes)))


def _is_below(path: Path, prefixes: list[Path]) -> bool:
    return any(path == prefix or prefix in path.parents for prefix in prefixes)
