"""What `python3` means in the user's shell is what it means in a trial."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Shown in every sandbox anyway.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Directories outside the system's that trials need, and their search path."""

    prefixes: tuple[Path, ...]
    path: str


def user_toolchain() -> Toolchain:
    """The user's Python and its virtual environment, as far as they are not the system's."""
    python = _user_python()
    needed: list[Path] = []
    named = python.prefixes if python else ()
    # Under its own name and under its real one: an environment's links point at either.
    for prefix in dict.fromkeys((*named, *(prefix.resolve() for prefix in named))):
        if not _is_below(prefix, [*map(Path, _SYSTEM), *needed]):
            needed.append(prefix)
    shown = [*map(Path, _SYSTEM), *needed]
    first = [str(python.executable.parent)] if python else []
    rest = [entry for entry in os.environ.get("PATH", "").split(":") if entry and _is_below(Path(entry), shown)]
    return Toolchain(tuple(needed), ":".join(dict.fromkeys([*first, *rest, "/usr/bin", "/bin"])))


@dataclass(frozen=True, slots=True)
class _Python:
    executable: Path
    prefixes: tuple[Path, ...]


def _user_python() -> _Python | None:
    found = shutil.which("python3")
    if found is None:
        return None
    if Path(found).resolve() == Path(sys.executable).resolve() and Path(found).parent == Path(sys.prefix, "bin"):
        return _Python(Path(found), (Path(sys.base_prefix), Path(sys.prefix)))
    # It may be a shim that finds the real one by rules of its own: only it knows.
    asked = "import sys; print(sys.executable, sys.base_prefix, sys.prefix, sep='\\n')"
    try:
        said = subprocess.run([found, "-I", "-c", asked], capture_output=True, text=True, timeout=20).stdout
        executable, *prefixes = said.splitlines()
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return _Python(Path(executable), tuple(map(Path, prefixes)))


def _is_below(path: Path, prefixes: list[Path]) -> bool:
    return any(path == prefix or prefix in path.parents for prefix in prefixes)
