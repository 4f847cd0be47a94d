"""A Python environment on disk: what a trial needs of it, found without running anything in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from loopty.sandboxes.installations import installation_of, steps_to

_MAPPING = re.compile(r"^MAPPING\b[^=\n]*= (\{.*\})$", re.MULTILINE)


def is_virtual_environment(folder: Path) -> bool:
    """Whether this folder is a virtual or a conda environment."""
    return (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()


def interpreter_installations(folder: Path, home: Path) -> Iterator[Path]:
    """The installations in the user's home to which the environment's interpreter leads.

    An environment may come with a stranger's repository, so it cannot name any other folder.
    """
    for step in steps_to(folder / "bin" / "python"):
        if not step.is_relative_to(folder) and (found := installation_of(step, home)):
            yield found


def editable_folders(folder: Path, top: Path) -> Iterator[str]:
    """The folders of the repository, from its top, that the environment imports from: editable installs."""
    for packages in sorted(folder.glob("lib/python*/site-packages")):
        lines = [line.strip() for file in sorted(packages.glob("*.pth")) for line in _text(file).splitlines()]
        named = [Path(line) for line in lines if line.startswith("/")]
        finders = sorted(packages.glob("__editable___*_finder.py"))
        for path in dict.fromkeys((*named, *(root for finder in finders for root in _finder_roots(finder)))):
            if path.is_relative_to(top):
                yield str(path.relative_to(top))


def _finder_roots(finder: Path) -> Iterator[Path]:
    """The folders that hold the packages which a finder of setuptools maps to their paths."""
    found = _MAPPING.search(_text(finder))
    try:
        mapping = ast.literal_eval(found[1]) if found else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return
    for name, place in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(name, str) and isinstance(place, str) and Path(place).name == name:
            yield Path(place).parent


def _text(file: Path) -> str:
    return file.read_text("utf-8", errors="replace")


def package_list(folder: Path) -> list[str]:
    """The packages of the environment with their versions, by the names of their folders."""
    if (folder / "conda-meta").is_dir():
        return sorted(file.name for file in (folder / "conda-meta").glob("*.json"))
    return sorted(found.name for found in folder.glob("lib/python*/site-packages/*-info"))
