"""Folders that can be made again when they are needed: exports and build caches, the private copies that a trial
starts with.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from loopty.domain.launch import Mount
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder

_MAKING = "making"


class RebuildableFolder(Record):
    """A folder that can be made again, and when it was made or last used."""

    name: str
    at: float
    size: int


def making_name(name: str) -> str:
    """Make a name for a folder while this process makes it, or removes it."""
    return f"{_MAKING}-{name}-{os.getpid()}-{os.urandom(4).hex()}"


class RebuildableFolders:
    """The folders of one kind."""

    def __init__(self, top: SafeFolder) -> None:
        self._top = top

    def older_than(self, before: float) -> list[RebuildableFolder]:
        """List the folders from before this time, the oldest first."""
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
    """Compute the size of the files below this folder; 0 if it is gone."""
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
    """Tell when the folder was made or last used; 0 if it is gone."""
    try:
        with folder.handle() as descriptor:
            return os.fstat(descriptor).st_mtime
    except OSError:
        return 0.0


# Only a trial of the baseline fills them, once. What a candidate writes is removed with its trial, so no candidate
# can change what another one, or its rival, is built from.


HandOver = Callable[[SafeFolder], None]


class BuildCaches:
    """The caches of one task on one machine."""

    def __init__(self, caches: SafeFolder, paths: Sequence[str], machine: str, trial_user: int | None) -> None:
        """`machine` is its fingerprint: what another toolchain has built is not used."""
        self._caches = caches
        self._paths = [os.path.normpath(path) for path in paths]
        self._machine = machine
        self._trial_user = trial_user

    def mounts(self, commit: str, area: SafeFolder, top: str, hand_over: HandOver) -> list[Mount]:
        """Fill the trial's own directories below `area` and return their mounts; `commit` is the baseline's."""
        if not self._paths:
            return []
        area.remove_all()
        saved = self._caches.below(self._key(commit))
        if _touch(saved) and not _copy(saved, area):
            area.remove_all()
        folders = [area.below(str(number)).written_by(self._trial_user) for number in range(len(self._paths))]
        for folder in folders:
            if not folder.exists():
                hand_over(folder.make())
        return [
            Mount(folder.path_for_programs(), f"{top}/{path}", writable=True)
            for folder, path in zip(folders, self._paths, strict=True)
        ]

    def save(self, commit: str, area: SafeFolder) -> None:
        """Keep what a trial of the baseline has left, unless there is something already."""
        if not self._paths or self._caches.below(self._key(commit)).exists():
            return
        making = self._caches.make().below(making_name(self._key(commit)))
        try:
            if _copy(area, making):
                self._caches.rename(making.name, self._key(commit))
        except OSError:
            return  # another process was faster, or the disk is full: the next trial builds from nothing
        finally:
            making.remove_all()

    def _key(self, commit: str) -> str:
        return hashlib.sha256("\0".join([commit, self._machine, *self._paths]).encode()).hexdigest()[:24]


def _touch(folder: SafeFolder) -> bool:
    """Say that the folder is used now, for whoever removes old ones; false where there is none."""
    try:
        with folder.handle() as descriptor:
            os.utime(descriptor)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # read-only state: it can be used all the same
    return True


def _copy(source: SafeFolder, target: SafeFolder) -> bool:
    """Copy a directory with links as links and with all times, sharing blocks where the file system can."""
    command = ["cp", "-a", "--reflink=auto", "--", str(source.path_for_programs()), str(target.shown_path)]
    return subprocess.run(command, capture_output=True).returncode == 0
