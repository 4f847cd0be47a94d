"""Overlays: a changed tree as mounts over a frozen export. Cost grows with the change, not with the repository.

A file with new content is mounted over the file of the export. A mount cannot add or delete a file, so a directory
with added or deleted files is rebuilt beside the export, and its unchanged subdirectories are mounted into it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Mount
from loopty.workspaces.git_objects import REGULAR_FILES, PathChange, TreeEntry

# Each mount costs every trial a descriptor and a tenth of a millisecond.
_MAX_FILE_MOUNTS = 64

ReadContent = Callable[[TreeEntry], bytes]


def overlay_mounts(
    export: Path, changes: Sequence[PathChange], content: ReadContent, area: Path, target: str
) -> list[Mount]:
    """The mounts that show the changed tree at `target`; new files are written below `area`."""
    overlay = _Overlay(export, changes, content, area, target)
    crowded_directories = _directories_with_many_changes(changes)
    rebuilt = _outermost(
        overlay.lasting_directory(change.path)
        for change in changes
        if not _can_be_mounted_over(change) or str(PurePosixPath(change.path).parent) in crowded_directories
    )
    mounts = [] if "" in rebuilt else [Mount(export, target)]
    for directory in rebuilt:
        mounts += overlay.rebuild_directory(directory)
    for change in changes:
        if change.after and not _is_below(change.path, rebuilt):
            mounts.append(Mount(overlay.write_file(change.path, change.after), f"{target}/{change.path}"))
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
        """The nearest directory above the path that exists before and after; empty for the root."""
        for parent in PurePosixPath(path).parents:
            if self._has_directory(parent) and self._stays(str(parent)):
                return "" if str(parent) == "." else str(parent)
        return ""

    def _has_directory(self, path: PurePosixPath) -> bool:
        """Whether the export has this directory itself, not through a link."""
        real = (self._export / path).is_dir() and not (self._export / path).is_symlink()
        return real and (path == path.parent or self._has_directory(path.parent))

    def _stays(self, path: str) -> bool:
        """Whether any file remains in this directory of the export: git has no empty directories."""
        if any(entry and changed.startswith(f"{path}/") for changed, entry in self._after.items()):
            return True
        inside = [f"{path}/{old.name}" for old in (self._export / path).iterdir()]
        return any(name not in self._after and (name not in self._touched or self._stays(name)) for name in inside)

    def write_file(self, path: str, entry: TreeEntry) -> Path:
        """Write the new file on the host; returns its path."""
        return self._write(self._new_folder() / PurePosixPath(path).name, entry)

    def rebuild_directory(self, path: str) -> list[Mount]:
        """Rebuild a directory; returns the mounts that show it, outermost first."""
        folder = self._new_folder()
        inner = self._fill(folder, path)
        return [Mount(folder, f"{self._target}/{path}".rstrip("/")), *inner]

    def _fill(self, folder: Path, path: str) -> list[Mount]:
        mounts: list[Mount] = []
        for old in sorted((self._export / path).iterdir()):
            name = f"{path}/{old.name}" if path else old.name
            if name in self._after:
                continue
            if old.is_symlink() or not old.is_dir():
                shutil.copy2(old, folder / old.name, follow_symlinks=False)
            elif name not in self._touched:
                (folder / old.name).mkdir()
                mounts.append(Mount(old, f"{self._target}/{name}"))
            elif self._stays(name):
                (folder / old.name).mkdir()
                mounts += self._fill(folder / old.name, name)
        self._add_new(folder, path)
        return mounts

    def _add_new(self, folder: Path, path: str) -> None:
        prefix = f"{path}/" if path else ""
        for changed, entry in self._after.items():
            if entry is None or not changed.startswith(prefix):
                continue
            inside = changed[len(prefix) :]
            head, deeper, _ = inside.partition("/")
            if deeper and self._has_directory(PurePosixPath(prefix, head)):
                continue  # that directory is filled separately
            (folder / inside).parent.mkdir(parents=True, exist_ok=True)
            self._write(folder / inside, entry)

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
        folder = self._area / str(self._folder_count)
        folder.mkdir(parents=True)
        return folder


def _can_be_mounted_over(change: PathChange) -> bool:
    """Whether mounting the new file over the old one is enough; a mounted link would be followed."""
    return all(entry and entry.mode in REGULAR_FILES for entry in (change.before, change.after))


def _directories_with_many_changes(changes: Sequence[PathChange]) -> set[str]:
    """Directories with so many changed files that one mount for all is better than one mount each."""
    if len(changes) > _MAX_FILE_MOUNTS:
        return {str(PurePosixPath(change.path).parent) for change in changes}
    return set()


def _outermost(directories: Iterable[str]) -> list[str]:
    """The directories that are not inside another of them."""
    outermost: list[str] = []
    for directory in sorted(set(directories), key=len):
        if not _is_below(directory, outermost):
            outermost.append(directory)
    return outermost


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(not above or path == above or path.startswith(f"{above}/") for above in directories)
