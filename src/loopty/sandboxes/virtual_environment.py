"""A Python environment on disk: what a trial needs of it, found without running anything in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loopty.sandboxes.installations import installation_of, steps_to


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
    files = sorted(folder.glob("lib/python*/site-packages/*.pth"))
    lines = (line.strip() for file in files for line in file.read_text("utf-8", errors="replace").splitlines())
    for line in lines:
        if line.startswith("/") and Path(line).is_relative_to(top):
            yield str(Path(line).relative_to(top))


def package_list(folder: Path) -> list[str]:
    """The packages of the environment with their versions, by the names of their folders."""
    if (folder / "conda-meta").is_dir():
        return sorted(file.name for file in (folder / "conda-meta").glob("*.json"))
    return sorted(found.name for found in folder.glob("lib/python*/site-packages/*-info"))
