"""A changed tree as mounts over a frozen export: cost grows with the change, not with the repository.

A file that only changed is mounted over the export's. Where files come or go, a mount cannot say so: the
directory they are in is built anew beside the export, and its untouched subdirectories are mounted into it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Mount
from loopty.workspaces.git_objects import REGULAR_FILES, PathChange, TreeEntry

# Each mount takes a descriptor and a tenth of a millisecond of every trial.
_MAX_FILE_MOUNTS = 64

ReadContent = Callable[[TreeEntry], bytes]


def overlay_mounts(
    export: Path, changes: Sequence[PathChange], content: ReadContent, area: Path, target: str
) -> list[Mount]:
    """The mounts that show the changed tree at `target`; new files are written below `area`."""
    graft = _Overlay(export, changes, content, area, target)
    crowded = _directories_with_many_changes(changes)
    rebuilt = _outermost(
        graft.lasting_directory(change.path)
        for change in changes
        if not _can_be_mounted_over(change) or str(PurePosixPath(change.path).parent) in crowded
    )
    mounts = [] if "" in rebuilt else [Mount(export, target)]
    for directory in rebuilt:
        mounts += graft.rebuild_directory(directory)
    for change in changes:
        if change.after and not _is_below(change.path, rebuilt):
            mounts.append(Mount(graft.write_file(change.path, change.after), f"{target}/{change.path}"))
    return mounts


class _Overlay:
    def __init__(
        self, export: Path, changes: Sequence[PathChange], content: ReadContent, area: Path, target: str
    ) -> None:
        self._export = export
        self._after = {change.path: change.after for change in changes}
        self._touched = {str(parent) for path in self._after for parent in PurePosixPath(path).parents}
        self._content = content
        self._area = area
        self._target = target
        self._folder_count = 0

    def lasting_directory(self, path: str) -> str:
        """The nearest directory above the path that is there before and after; empty for the root."""
        for parent in PurePosixPath(path).parents:
            if self._has_directory(parent) and self._stays(str(parent)):
                return "" if str(parent) == "." else str(parent)
        return ""

    def _has_directory(self, path: PurePosixPath) -> bool:
        """Whether the export has this directory itself, not by way of a link."""
        real = (self._export / path).is_dir() and not (self._export / path).is_symlink()
        return real and (path == path.parent or self._has_directory(path.parent))

    def _stays(self, path: str) -> bool:
        """Whether anything is left in this directory of the export: git knows no empty ones."""
        if any(entry and changed.startswith(f"{path}/") for changed, entry in self._after.items()):
            return True
        inside = [f"{path}/{old.name}" for old in (self._export / path).iterdir()]
        return any(name not in self._after and (name not in self._touched or self._stays(name)) for name in inside)

    def write_file(self, path: str, entry: TreeEntry) -> Path:
        """The new file on the host."""
        return self._write(self._new_folder() / PurePosixPath(path).name, entry)

    def rebuild_directory(self, path: str) -> list[Mount]:
        """Build a directory anew; the mounts that show it, outermost first."""
        made = self._new_folder()
        inner = self._fill(made, path)
        return [Mount(made, f"{self._target}/{path}".rstrip("/")), *inner]

    def _fill(self, made: Path, path: str) -> list[Mount]:
        mounts: list[Mount] = []
        for old in sorted((self._export / path).iterdir()):
            inside = f"{path}/{old.name}" if path else old.name
            if inside in self._after:
                continue
            if old.is_symlink() or not old.is_dir():
                shutil.copy2(old, made / old.name, follow_symlinks=False)
            elif inside not in self._touched:
                (made / old.name).mkdir()
                mounts.append(Mount(old, f"{self._target}/{inside}"))
            elif self._stays(inside):
                (made / old.name).mkdir()
                mounts += self._fill(made / old.name, inside)
        self._add_new(made, path)
        return mounts

    def _add_new(self, made: Path, path: str) -> None:
        prefix = f"{path}/" if path else ""
        for changed, entry in self._after.items():
            if entry is None or not changed.startswith(prefix):
                continue
            inside = changed[len(prefix) :]
            head, deeper, _ = inside.partition("/")
            if deeper and self._has_directory(PurePosixPath(prefix, head)):
                continue  # that directory is filled in its own turn
            (made / inside).parent.mkdir(parents=True, exist_ok=True)
            self._write(made / inside, entry)

    def _write(self, path: Path, entry: TreeEntry) -> Path:
        raw = self._content(entry)
        if entry.mode == "120000":
            path.symlink_to(raw.decode(errors="surrogateescape"))
        else:
            path.write_bytes(raw)
            path.chmod(0o755 if entry.mode == "100755" else 0o644)
        return path

    def _new_folder(self) -> Path:
        self._folder_count += 1
        place = self._area / str(self._folder_count)
        place.mkdir(parents=True)
        return place


def _can_be_mounted_over(change: PathChange) -> bool:
    """Whether a mount of the new file over the old says it all; a mounted link would be followed."""
    return all(entry and entry.mode in REGULAR_FILES for entry in (change.before, change.after))


def _directories_with_many_changes(changes: Sequence[PathChange]) -> set[str]:
    """Directories in which so many files change that one mount for all is better than one for each."""
    if len(changes) > _MAX_FILE_MOUNTS:
        return {str(PurePosixPath(change.path).parent) for change in changes}
    return set()


def _outermost(directories: Iterable[str]) -> list[str]:
    """The directories that lie in no other of them."""
    found: list[str] = []
    for directory in sorted(set(directories), key=len):
        if not _is_below(directory, found):
            found.append(directory)
    return found


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(not above or path == above or path.startswith(f"{above}/") for above in directories)
