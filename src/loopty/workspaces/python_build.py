"""What setup.py and pyproject.toml say about the modules that are built: which, and with what."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

from loopty.kit.source_text import source_text

_EXTENSIONS = re.compile(r"\bExtension\s*\(|\bext_modules\b|\bcythonize\b|\bcffi_modules\b")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.\[\],<>=!~ -]*")


class PythonBuild:
    """The build files at the top of a repository."""

    def __init__(self, top: Path) -> None:
        self._setup = source_text(top / "setup.py")
        self._project = _project(top / "pyproject.toml")
        self._metadata = source_text(top / "PKG-INFO")

    @property
    def has_extensions(self) -> bool:
        """Whether setup.py builds modules from sources of another language."""
        return _EXTENSIONS.search(self._setup) is not None

    def names_module(self, name: str) -> bool:
        """Whether this module is the project's own by its name, or is named in setup.py."""
        last = name.rpartition(".")[2]
        named = re.search(rf"['\"/.]{re.escape(last)}(?:['\"]|\.pyx|\.c)", self._setup) is not None
        return named or (bool(self._own_name) and _normal(self._own_name) == _normal(name))

    @property
    def import_name(self) -> str:
        """The name of the project where it could be that of its package, too; else empty."""
        found = re.search(r"^Name: (\S+)$", self._metadata, re.MULTILINE)
        name = self._own_name or (found[1] if found else "")
        return name if _DOTTED.fullmatch(name) else ""

    @property
    def _own_name(self) -> str:
        table = self._project.get("project")
        return str(table.get("name", "")) if isinstance(table, dict) else ""

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
        return tomllib.loads(source_text(path))
    except (ValueError, RecursionError):
        return {}
