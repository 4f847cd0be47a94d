"""Frozen exports: a commit's visible files in a directory that every trial of a run shares, read-only."""

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
    visible: Callable[[str], bool],
    mount_points: tuple[str, ...],
    exports: Path,
    covered: Mapping[str, bool] | None = None,
    protected: bool = False,
) -> Path:
    """The export's directory, made when it is not there yet. Any number of processes may ask at once.

    `rules` states all that decides what is visible, so that an export that is there is found without a look
    at the files. `covered` are further mount points, which may cover files of the commit: whether each is a
    directory. In a `protected` export no file can be written; that is so before anybody sees it, because even a
    change of its mode would look like tampering to a trial that runs.
    """
    points = [*mount_points, *(f"{point}:{is_folder}" for point, is_folder in (covered or {}).items())]
    key = hashlib.sha256("\0".join([commit, rules, *points]).encode()).hexdigest()[:24]
    final = exports / key
    if final.is_dir():
        return final
    listing = repository.files(commit)
    shown = [path for path in listing if visible(path)]
    making = exports / f"making-{key}-{os.getpid()}-{os.urandom(4).hex()}"
    making.mkdir(parents=True)
    try:
        repository.check_out(commit, shown, making)
        for point in mount_points:
            if any(place in listing for place in (point, *map(str, PurePosixPath(point).parents))):
                raise Misuse(f"{point} is to be a directory of the trial (scratch, mounts), and a file is there")
            (making / point).mkdir(parents=True, exist_ok=True)
        for point, is_folder in (covered or {}).items():
            _make_mount_point(making / point, is_folder)
        if protected:
            _make_read_only(making)
        making.rename(final)
    except OSError:
        if not final.is_dir():  # otherwise another process was faster, which is as good
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return final


def _make_read_only(root: Path) -> None:
    """Take the right to write from every file; directories keep it, so that all of it can be removed."""
    for folder, _, files in os.walk(root):
        for path in (Path(folder, name) for name in files):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o7555)


def _make_mount_point(place: Path, is_folder: bool) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if is_folder:
        place.mkdir(exist_ok=True)
    else:
        place.touch()
