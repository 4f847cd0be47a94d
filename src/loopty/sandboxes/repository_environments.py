"""Environments inside the repository that git ignores: `.venv`, `node_modules` and the like."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from loopty.kit.records import Record
from loopty.sandboxes.virtual_environment import is_virtual_environment, package_list

_MAX_ENVIRONMENTS = 32
_NODE = "node_modules"
_NODE_RECORDS = (".package-lock.json", ".modules.yaml", ".yarn-integrity", ".yarn-state.yml")
"""Where npm, pnpm and yarn record what they installed."""


class RepositoryEnvironment(Record):
    """A folder of packages that the trial sees at its own place in the tree, read-only."""

    path: str
    """From the top of the repository."""
    folder: Path

    @property
    def programs(self) -> str:
        """Its folder of programs, from the top of the repository."""
        return f"{self.path}/{'.bin' if self.folder.name == _NODE else 'bin'}"

    @property
    def digest(self) -> str:
        """What is installed in it, from records of the installer: cheap, and the same after another install."""
        if self.folder.name == _NODE:
            records = [self.folder / name for name in _NODE_RECORDS]
            known = next((record.read_bytes() for record in records if record.is_file()), None)
            installed = (
                known if known is not None else "\n".join(sorted(e.name for e in self.folder.iterdir())).encode()
            )
        else:
            installed = "\n".join(package_list(self.folder)).encode()
        return hashlib.sha256(installed).hexdigest()[:8]


def repository_environments(top: Path, paths_that_git_ignores: Iterable[str]) -> list[RepositoryEnvironment]:
    """The environments among the paths that git ignores. A link is none: it could lead anywhere."""
    return list(_environments(top, paths_that_git_ignores))[:_MAX_ENVIRONMENTS]


def _environments(top: Path, paths_that_git_ignores: Iterable[str]) -> Iterator[RepositoryEnvironment]:
    for path in paths_that_git_ignores:
        folder = top / path
        is_environment = folder.name == _NODE or is_virtual_environment(folder)
        if is_environment and folder.is_dir() and folder.resolve() == folder:
            yield RepositoryEnvironment(path, folder)
