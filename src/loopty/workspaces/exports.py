"""Exports: the visible files of a commit, frozen in a directory that all trials of a run share read-only."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from loopty.domain.errors import Misuse
from loopty.workspaces.repository import Repository


def export_commit(
    repository: Repository,
    commit: str,
    rules: str,
    is_visible: Callable[[str], bool],
    mount_points: tuple[str, ...],
    exports: Path,
    covering_points: Mapping[str, bool] | None = None,
    read_only: bool = False,
) -> Path:
    """The directory of the export, made if it does not exist yet. Any number of processes may call this at once.

    `rules` is a text of everything that decides what is visible, so that an existing export is found without
    looking at the files. `covering_points` are further mount points, which may cover files of the commit, and
    whether each is a directory. In a `read_only` export no file can be written; the modes are set before anybody
    sees the export, because even a change of mode would look like tampering to a running trial.
    """
    points = [*mount_points, *(f"{point}:{is_folder}" for point, is_folder in (covering_points or {}).items())]
    key = hashlib.sha256("\0".join([commit, rules, *points]).encode()).hexdigest()[:24]
    final = exports / key
    if final.is_dir():
        return final
    listing = repository.files(commit)
    visible = [path for path in listing if is_visible(path)]
    building = exports / f"making-{key}-{os.getpid()}-{os.urandom(4).hex()}"
    building.mkdir(parents=True)
    try:
        repository.check_out(commit, visible, building)
        for point in mount_points:
            if any(ancestor in listing for ancestor in (point, *map(str, PurePosixPath(point).parents))):
                raise Misuse(
                    f"{point} must be a directory of the trial (scratch, mounts), but the commit has a file there"
                )
            (building / point).mkdir(parents=True, exist_ok=True)
        for point, is_folder in (covering_points or {}).items():
            _make_mount_point(building / point, is_folder)
        if read_only:
            _make_read_only(building)
        building.rename(final)
    except OSError:
        if not final.is_dir():  # otherwise another process was faster, which is just as good
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return final


def _make_read_only(root: Path) -> None:
    """Make every file read-only; directories stay writable, so that the export can be removed."""
    for folder, _, files in os.walk(root):
        for path in (Path(folder, name) for name in files):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o7555)


def _make_mount_point(path: Path, is_folder: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_folder:
        path.mkdir(exist_ok=True)
    else:
        path.touch()
