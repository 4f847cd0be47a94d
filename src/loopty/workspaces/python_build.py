"""What setup.py and pyproject.toml say about the modules that are built: which, and with what."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

_EXTENSIONS = re.compile(r"\bExtension\s*\(|\bext_modules\b|\bcythonize\b|\bcffi_modules\b")
_LARGEST_FILE = 1 << 20
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.\[\],<>=!~ -]*")


class PythonBuild:
    """The build files at the top of a repository."""

    def __init__(self, top: Path) -> None:
        self._setup = _text(top / "setup.py")
        self._project = _project(top / "pyproject.toml")

    @property
    def has_extensions(self) -> bool:
        """Whether setup.py builds modules from sources of another language."""
        return _EXTENSIONS.search(self._setup) is not None

    def names_module(self, name: str) -> bool:
        """Whether this module is the project's own by its name, or is named in setup.py."""
        last = name.rpartition(".")[2]
        named = re.search(rf"['\"/.]{re.escape(last)}(?:['\"]|\.pyx|\.c)", self._setup) is not None
        table = self._project.get("project")
        own = str(table.get("name", "")) if isinstance(table, dict) else ""
        return named or (bool(own) and _normal(own) == _normal(name))

    @property
    def requirements(self) -> tuple[str, ...]:
        """What a build needs, each quoted for a shell; what is no plain requirement is left out."""
        table = self._project.get("build-system")
        names = table.get("requires") if isinstance(table, dict) else None
        plain = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        plain = [name.partition(";")[0].strip() for name in plain]
        return tuple(shlex.quote(name) for name in plain if _REQUIREMENT.fullmatch(name))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _project(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except (ValueError, RecursionError):
        return {}


def _text(path: Path) -> str:
    """The text of a file; empty where it is missing, large or no regular file."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return ""
        return path.read_text(errors="replace")
    except OSError:
        return ""
