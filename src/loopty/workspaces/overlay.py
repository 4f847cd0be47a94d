"""Overlays: a changed tree as mounts over a frozen export. Cost grows with the change, not with the repository.

A file with new content is mounted over the file of the export. A mount cannot add or delete a file, so a directory
with added or deleted files is rebuilt beside the export, and its unchanged subdirectories are mounted into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Mount
from loopty.git.objects import REGULAR_FILES, PathChange, TreeEntry
from loopty.kit.safe_folder import SafeFolder, UnsafePath

# Each mount costs every trial a descriptor and a tenth of a millisecond.
_MAX_FILE_MOUNTS = 64

ReadContent = Callable[[TreeEntry], bytes]


def overlay_mounts(
    export: SafeFolder, changes: Sequence[PathChange], content: ReadContent, area: SafeFolder, target: str
) -> list[Mount]:
    """Make the mounts that show the changed tree at `target`; new files are written below `area`."""
    overlay = _Overlay(export, changes, content, area, target)
    crowded_directories = _directories_with_many_changes(changes)
    rebuilt = _outermost(
        overlay.lasting_directory(change.path)
        for change in changes
        if not _can_be_mounted_over(change) or str(PurePosixPath(change.path).parent) in crowded_directories
    )
    mounts = [] if "" in rebuilt else [Mount(export.path_for_programs(), target)]
    for directory in rebuilt:
        mounts += overlay.rebuild_directory(directory)
    for change in changes:
        if change.after and not _is_below(change.path, rebuilt):
            mounts.append(Mount(overlay.write_file(change.path, change.after), f"{target}/{change.path}"))
    return mounts


class _Overlay:
    def __init__(
        self,
        export: SafeFolder,
        changes: Sequence[PathChange],
        content: ReadContent,
        area: SafeFolder,
        target: str,
    ) -> None:
        self._export = export
        self._after = {change.path: change.after for change in changes}
        self._touched = {str(parent) for path in self._after for parent in PurePosixPath(path).parents}
        self._content = content
        self._area = area
        self._target = target
        self._folder_count = 0

    def lasting_directory(self, path: str) -> str:
        """Find the nearest directory above the path that exists before and after; empty for the root."""
        for parent in PurePosixPath(path).parents:
            if self._has_directory(parent) and self._stays(str(parent)):
                return "" if str(parent) == "." else str(parent)
        return ""

    def _has_directory(self, path: PurePosixPath) -> bool:
        """Say whether the export has this directory itself, not through a link."""
        try:
            return self._export.below(*path.parts).exists()
        except UnsafePath:
            return False

    def _stays(self, path: str) -> bool:
        """Say whether any file remains in this directory of the export: git has no empty directories."""
        if any(entry and changed.startswith(f"{path}/") for changed, entry in self._after.items()):
            return True
        inside = [f"{path}/{name}" for name in self._export.below(*PurePosixPath(path).parts).names()]
        return any(name not in self._after and (name not in self._touched or self._stays(name)) for name in inside)

    def write_file(self, path: str, entry: TreeEntry) -> Path:
        """Write the new file on the host; returns its path."""
        folder, name = self._new_folder(), PurePosixPath(path).name
        self._write(folder, name, entry)
        return folder.path_for_programs() / name

    def rebuild_directory(self, path: str) -> list[Mount]:
        """Rebuild a directory; returns the mounts that show it, outermost first."""
        folder = self._new_folder()
        inner = self._fill(folder, path)
        return [Mount(folder.path_for_programs(), f"{self._target}/{path}".rstrip("/")), *inner]

    def _fill(self, folder: SafeFolder, path: str) -> list[Mount]:
        mounts: list[Mount] = []
        source = self._export.below(*PurePosixPath(path).parts)
        for old in source.names():
            name = f"{path}/{old}" if path else old
            if name in self._after:
                continue
            if not self._has_directory(PurePosixPath(name)):
                _copy(source, old, folder)
            elif name not in self._touched:
                folder.below(old).make()
                mounts.append(Mount(source.below(old).path_for_programs(), f"{self._target}/{name}"))
            elif self._stays(name):
                mounts += self._fill(folder.below(old).make(), name)
        self._add_new(folder, path)
        return mounts

    def _add_new(self, folder: SafeFolder, path: str) -> None:
        prefix = f"{path}/" if path else ""
        for changed, entry in self._after.items():
            if entry is None or not changed.startswith(prefix):
                continue
            inside = PurePosixPath(changed[len(prefix) :])
            if len(inside.parts) > 1 and self._has_directory(PurePosixPath(prefix, inside.parts[0])):
                continue  # that directory is filled separately
            self._write(folder.below(*inside.parts[:-1]).make(), inside.name, entry)

    def _write(self, folder: SafeFolder, name: str, entry: TreeEntry) -> None:
        raw = self._content(entry)
        if entry.mode == "120000":
            with folder.handle() as descriptor:
                os.symlink(raw, name, dir_fd=descriptor)
            return
        with os.fdopen(folder.file(name).open(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            os.fchmod(file.fileno(), 0o755 if entry.mode == "100755" else 0o644)
            file.write(raw)

    def _new_folder(self) -> SafeFolder:
        self._folder_count += 1
        return self._area.below(str(self._folder_count)).make()


def _copy(source: SafeFolder, name: str, target: SafeFolder) -> None:
    """Copy a file, or a link as a link."""
    try:
        source.file(name).copy_to(target.file(name))
    except UnsafePath:
        with source.handle() as old, target.handle() as new:
            os.symlink(os.readlink(name, dir_fd=old), name, dir_fd=new)


def _can_be_mounted_over(change: PathChange) -> bool:
    """Say whether mounting the new file over the old one is enough; a mounted link would be followed."""
    return all(entry and entry.mode in REGULAR_FILES for entry in (change.before, change.after))


def _directories_with_many_changes(changes: Sequence[PathChange]) -> set[str]:
    """Directories with so many changed files that one mount for all is better than one mount each."""
    if len(changes) > _MAX_FILE_MOUNTS:
        return {str(PurePosixPath(change.path).parent) for change in changes}
    return set()


def _outermost(directories: Iterable[str]) -> list[str]:
    """List the directories that are not inside another of them."""
    outermost: list[str] = []
    for directory in sorted(set(directories), key=len):
        if not _is_below(directory, outermost):
            outermost.append(directory)
    return outermost


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(not above or path == above or path.startswith(f"{above}/") for above in directories)
