"""Host paths that the task names: where they are on the host and inside a trial."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.launch import Mount


class HostPaths:
    """The paths of an option such as `benchmark.mounts`: from the repository's top, or anywhere on the host."""

    def __init__(self, top: Path, paths: Iterable[str], option: str) -> None:
        self._top = top
        self._paths = [os.path.normpath(Path(path).expanduser()) for path in paths]
        self._option = option

    @property
    def paths_inside(self) -> list[str]:
        """The paths inside the repository."""
        return [path for path in self._paths if _is_inside(path)]

    def includes(self, path: str) -> bool:
        """Whether a path of the repository is one of these paths or below one."""
        return any(path == named or path.startswith(f"{named}/") for named in self.paths_inside)

    def sources(self) -> list[Path]:
        """The real paths on the host. Raises Misuse when one does not exist."""
        paths = [self._host_path(path) for path in self._paths]
        for path in paths:
            if not path.exists():
                raise Misuse(f"{self._option} names {path}, which does not exist: create it, or do not name it")
        return [path.resolve() for path in paths]

    def mounts(self, top: str) -> list[Mount]:
        """Mounts of the paths inside the repository below `top`, and of the others at their host paths."""
        targets = [f"{top}/{path}" if _is_inside(path) else str(self._host_path(path)) for path in self._paths]
        return [Mount(source, target) for source, target in zip(self.sources(), targets, strict=True)]

    def mount_points(self) -> dict[str, bool]:
        """The paths inside the repository, and whether each is a directory."""
        return {path: self._host_path(path).is_dir() for path in self.paths_inside}

    def _host_path(self, path: str) -> Path:
        return Path(os.path.normpath(self._top / path))


def _is_inside(path: str) -> bool:
    return not path.startswith(("/", "../"))
