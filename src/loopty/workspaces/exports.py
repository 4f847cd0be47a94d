"""Exports: the visible files of a commit, frozen in a directory that all trials of a run share read-only."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from loopty.domain.errors import Misuse
from loopty.kit.safe_folder import SafeFolder, UnsafePath
from loopty.kit.short_digest import sha256
from loopty.workspaces.bytecode import copy_into_export
from loopty.workspaces.git_objects import SUBMODULE, TreeEntry
from loopty.workspaces.rebuildable_folders import making_name
from loopty.workspaces.repository import Repository
from loopty.workspaces.submodules import submodules_of, write_submodule


def export_commit(
    repository: Repository,
    commit: str,
    rules: str,
    is_visible: Callable[[str], bool],
    mount_points: tuple[str, ...],
    exports: SafeFolder,
    covering_points: Mapping[str, bool] | None = None,
    read_only: bool = False,
    bytecode: SafeFolder | None = None,
) -> SafeFolder:
    """The directory of the export, made if it does not exist yet. Any number of processes may call this at once.

    `rules` is a text of everything that decides what is visible, so that an existing export is found without
    looking at the files. `covering_points` are further mount points, which may cover files of the commit, and
    whether each is a directory. In a `read_only` export no file can be written; the modes are set before anybody
    sees the export, because even a change of mode would look like tampering to a running trial. `bytecode` is the
    byte code of its files.
    """
    submodules = list(submodules_of(repository, commit))
    points = [*mount_points, *(f"{point}:{is_folder}" for point, is_folder in (covering_points or {}).items())]
    # By its tree: each check of `init` makes a commit of its own, and most of them have the same files.
    parts = [repository.tree(commit), rules, *points, *(inner.path for inner in submodules)]
    parts += [bytecode.name] if bytecode else []
    key = sha256("\0".join(parts).encode()).hexdigest()[:24]
    final = exports.below(key)
    if final.exists():
        return final
    listing = repository.files(commit)
    visible = [path for path in listing if is_visible(path)]
    building = exports.below(making_name(key)).make()
    try:
        repository.check_out(commit, visible, building.path_for_programs())
        for submodule in submodules:
            write_submodule(submodule, is_visible, building)
        for point in mount_points:
            if any(_is_file(listing, ancestor) for ancestor in (point, *map(str, PurePosixPath(point).parents))):
                raise Misuse(
                    f"{point} must be a directory of the trial (scratch, mounts), but the commit has a file there"
                )
            _make_mount_point(building, point, is_folder=True)
        for point, is_folder in (covering_points or {}).items():
            _make_mount_point(building, point, is_folder)
        if bytecode:
            copy_into_export(bytecode, building)
        _set_one_time(building)
        if read_only:
            _make_read_only(building)
        exports.rename(building.name, key)
    except OSError:
        if not final.exists():  # otherwise another process was faster, which is just as good
            raise
    finally:
        building.remove_all()
    return final


def _is_file(listing: Mapping[str, TreeEntry], path: str) -> bool:
    return path in listing and listing[path].mode != SUBMODULE


def _set_one_time(root: SafeFolder) -> None:
    """Give every file the same time: git keeps none, and make would build anew what a release has as built.

    In a checkout `configure` may be younger or older than `configure.ac` by chance, and then wants autoconf.
    """
    now = time.time_ns()
    with root.handle() as top:
        for _, _, files, folder in os.fwalk(".", dir_fd=top):
            for name in files:
                os.utime(name, ns=(now, now), dir_fd=folder, follow_symlinks=False)


def _make_read_only(root: SafeFolder) -> None:
    """Make every file read-only; directories stay writable, so that the export can be removed."""
    with root.handle() as top:
        for _, _, files, folder in os.fwalk(".", dir_fd=top):
            for name in files:
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                if not stat.S_ISLNK(mode):
                    os.chmod(name, mode & 0o7555, dir_fd=folder)


def _make_mount_point(root: SafeFolder, point: str, is_folder: bool) -> None:
    """Make a directory or an empty file at this path. Raises Misuse where the commit has a link on the way."""
    *above, name = PurePosixPath(point).parts
    try:
        folder = root.below(*above)
        if is_folder:
            folder.below(name).make()
        elif not folder.file(name).exists():
            folder.file(name).write(b"")
    except UnsafePath:
        raise Misuse(f"{point} must be mounted into the trial, but the commit has a link there") from None
