"""Folders that can be made again when they are needed, exports and build caches: how they are removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder

_MAKING = "making"


class RebuildableFolder(Record):
    """A folder that can be made again, and when it was made or last used."""

    name: str
    at: float
    size: int


def making_name(name: str) -> str:
    """A name for a folder while this process makes it, or removes it."""
    return f"{_MAKING}-{name}-{os.getpid()}-{os.urandom(4).hex()}"


class RebuildableFolders:
    """The folders of one kind."""

    def __init__(self, top: SafeFolder) -> None:
        self._top = top

    def older_than(self, before: float) -> list[RebuildableFolder]:
        """Those from before this time, the oldest first."""
        names = (name for name in self._top.names() if not name.startswith(f"{_MAKING}-"))
        times = {name: _time_of(self._top.below(name)) for name in names}
        old = sorted((at, name) for name, at in times.items() if 0 < at < before)
        return [RebuildableFolder(name, at, bytes_below(self._top.below(name))) for at, name in old]

    def remove(self, name: str, is_wanted: Callable[[], bool]) -> None:
        """Remove one, unless somebody wants it just now."""
        aside = making_name(name)
        try:
            self._top.rename(name, aside)
        except OSError:
            return  # another process was faster
        if is_wanted():
            try:
                self._top.rename(aside, name)
            except OSError:
                self._top.remove(aside)  # it was made again meanwhile
        else:
            self._top.remove(aside)

    def sweep(self) -> None:
        """Remove what dead processes were making or removing."""
        for name in self._top.names():
            if name.startswith(f"{_MAKING}-") and not Path("/proc", name.split("-")[-2]).exists():
                self._top.remove(name)


def bytes_below(folder: SafeFolder) -> int:
    """The size of the files below this folder; 0 where it is gone."""
    try:
        with folder.handle() as top:
            return sum(
                os.stat(name, dir_fd=inner, follow_symlinks=False).st_size
                for _, _, names, inner in os.fwalk(".", dir_fd=top)
                for name in names
            )
    except OSError:
        return 0


def _time_of(folder: SafeFolder) -> float:
    """When the folder was made or last used; 0 where it is gone."""
    try:
        with folder.handle() as descriptor:
            return os.fstat(descriptor).st_mtime
    except OSError:
        return 0.0
