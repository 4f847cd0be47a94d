"""Writing a winner down as an artifact.

It is made beside its place and moved there whole: a kill or a full disk leaves all of it or nothing.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.workspaces.artifact import (
    BUNDLE,
    FROM_THE_NODE,
    MANIFEST,
    PARAMS,
    PATCH,
    SUMS,
    TARBALL,
    params_text,
    size_limit,
    sums_text,
)
from loopty.workspaces.git_session import GitError
from loopty.workspaces.manifest import Manifest
from loopty.workspaces.repository import Repository
from loopty.workspaces.tree_removal import remove_tree


def pack_artifact(
    repository: Repository, manifest: Manifest, task_file: bytes, node_folder: Path, to: Path, force: bool = False
) -> str:
    """Write the artifact, as a tarball where the name says so, else as a folder; its digest."""
    try:
        with _working_folder(to) as place:
            _refuse_to_overwrite(to, force)
            folder = place / manifest.node.branch
            folder.mkdir()
            digest = _fill_folder(folder, repository, manifest, task_file, node_folder)
            made = _make_tarball(folder, int(manifest.judged_at)) if to.name.endswith(TARBALL) else folder
            _move_into_place(made, to, place)
    except GitError as error:
        raise Misuse(f"git cannot pack node {manifest.node} ({error})".replace("\n", " ")) from None
    except OSError as error:
        raise Misuse(f"cannot write {to} ({error.strerror}): name another place with --to") from None
    return digest


def _refuse_to_overwrite(to: Path, force: bool) -> None:
    if not os.path.lexists(to):
        return
    if not force:
        raise Misuse(f"{to} is there already: replace it with --force, or name another place with --to")
    whole = to.is_file() if to.name.endswith(TARBALL) else (to / MANIFEST).is_file() and (to / SUMS).is_file()
    if to.is_symlink() or not whole:
        raise Misuse(f"{to} is no artifact, so --force does not replace it: name another place with --to")


@contextmanager
def _working_folder(to: Path) -> Iterator[Path]:
    """A directory beside the place that is ours alone; what a killed export left there is gone."""
    place = to.with_name(f".{to.name}.making")
    lock = _lock_folder(place)
    try:
        for left in place.iterdir():
            remove_tree(left)
        yield place
    finally:
        remove_tree(place)
        os.close(lock)


def _lock_folder(place: Path) -> int:
    """A lock on the directory, once nobody else has it."""
    while True:
        with suppress(FileExistsError):
            place.mkdir()
        # Where it is gone again, it was another export's, which is done.
        with suppress(FileNotFoundError):
            lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(lock, place):
                return lock
            os.close(lock)


def _is_at(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), place.stat())
    except FileNotFoundError:
        return False


def _fill_folder(
    folder: Path, repository: Repository, manifest: Manifest, task_file: bytes, node_folder: Path
) -> str:
    (folder / MANIFEST).write_bytes(manifest.text.encode())
    (folder / PARAMS).write_text(params_text(manifest))
    (folder / TASK_FILE).write_bytes(task_file)
    (folder / PATCH).write_bytes(repository.patch(manifest.baseline_commit, manifest.commit))
    repository.write_bundle(manifest.baseline_tree, manifest.tree, folder / BUNDLE)
    for name in FROM_THE_NODE:
        if (node_folder / name).is_file():
            shutil.copyfile(node_folder / name, folder / name)
    sums = {}
    for path in folder.iterdir():
        if path.stat().st_size > size_limit(path.name):
            raise Misuse(
                f"{path.name} would be larger than {size_limit(path.name) >> 20} MB, the most of an artifact"
            )
        with path.open("rb") as file:
            sums[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    stated = sums_text(sums)
    (folder / SUMS).write_text(stated)
    return hashlib.sha256(stated.encode()).hexdigest()


def _make_tarball(folder: Path, at: int) -> Path:
    """The folder as a tarball of the same bytes whoever makes it and when."""
    made = folder.with_name(folder.name + TARBALL)
    with (
        made.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted(folder.iterdir()):
            info = tarfile.TarInfo(f"{folder.name}/{path.name}")
            info.size, info.mtime = path.stat().st_size, at
            with path.open("rb") as member:
                tar.addfile(info, member)
    return made


def _move_into_place(made: Path, to: Path, place: Path) -> None:
    """Move what was made to its place, once it would survive a loss of power."""
    for path in (*(made.iterdir() if made.is_dir() else ()), made):
        _sync(path)
    before = place / "before"
    if made.is_dir() and to.is_dir():
        to.rename(before)  # a directory cannot be replaced at one stroke
    try:
        made.rename(to)
    except OSError:
        if before.is_dir():
            before.rename(to)
        raise
    _sync(to.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
