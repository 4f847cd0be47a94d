"""Host paths that the task names: where they are, and where a trial sees them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.launch import Mount


class HostPaths:
    """What `benchmark.mounts` or `benchmark.data` names: from the repository's top, or anywhere on the host."""

    def __init__(self, top: Path, stated: Iterable[str], option: str) -> None:
        self._top = top
        self._paths = [os.path.normpath(Path(path).expanduser()) for path in stated]
        self._option = option

    @property
    def paths_inside(self) -> list[str]:
        """Those named from the repository's top."""
        return [path for path in self._paths if _is_inside(path)]

    def includes(self, path: str) -> bool:
        """Whether a path of the repository is one of these, or below one."""
        return any(path == own or path.startswith(f"{own}/") for own in self.paths_inside)

    def sources(self) -> list[Path]:
        """Where they really are; Misuse when one is not there."""
        found = [self._host_path(path) for path in self._paths]
        for path in found:
            if not path.exists():
                raise Misuse(f"{self._option} names {path}, which is not there: make it, or do not name it")
        return [path.resolve() for path in found]

    def mounts(self, top: str) -> list[Mount]:
        """Those from the repository's top below `top`, the others where they are on the host."""
        seen_at = [f"{top}/{path}" if _is_inside(path) else str(self._host_path(path)) for path in self._paths]
        return [Mount(source, target) for source, target in zip(self.sources(), seen_at, strict=True)]

    def mount_points(self) -> dict[str, bool]:
        """The places below the top where something is mounted, and whether that is a directory."""
        return {path: self._host_path(path).is_dir() for path in self.paths_inside}

    def _host_path(self, path: str) -> Path:
        return Path(os.path.normpath(self._top / path))


def _is_inside(path: str) -> bool:
    return not path.startswith(("/", "../"))
