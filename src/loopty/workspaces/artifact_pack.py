"""Writes a winner as an artifact.

The artifact is built beside its target and then moved there: a kill or a full disk leaves all of it or nothing.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.kit.safe_folder import SafeFolder
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
from loopty.workspaces.git_bundle import write_bundle
from loopty.workspaces.git_session import GitError
from loopty.workspaces.manifest import Manifest
from loopty.workspaces.node_folders import NodeFolder
from loopty.workspaces.repository import Repository


def pack_artifact(
    repository: Repository,
    manifest: Manifest,
    task_file: bytes,
    node_folder: NodeFolder,
    target: Path,
    force: bool = False,
) -> str:
    """Write the artifact, as a tarball if the name says so, else as a folder; its digest. Raises Misuse."""
    try:
        with _working_folder(target) as working_folder:
            _refuse_to_overwrite(target, force)
            folder = working_folder / manifest.node.branch
            folder.mkdir()
            digest = _fill_folder(folder, repository, manifest, task_file, node_folder)
            artifact = _make_tarball(folder, int(manifest.judged_at)) if target.name.endswith(TARBALL) else folder
            _move_into_place(artifact, target, working_folder)
    except GitError as error:
        raise Misuse(f"git cannot pack node {manifest.node} ({error})".replace("\n", " ")) from None
    except OSError as error:
        raise Misuse(f"cannot write {target} ({error.strerror}): name another target with --to") from None
    return digest


def _refuse_to_overwrite(target: Path, force: bool) -> None:
    if not os.path.lexists(target):
        return
    if not force:
        raise Misuse(f"{target} already exists: replace it with --force, or name another target with --to")
    is_artifact = (
        target.is_file()
        if target.name.endswith(TARBALL)
        else (target / MANIFEST).is_file() and (target / SUMS).is_file()
    )
    if target.is_symlink() or not is_artifact:
        raise Misuse(f"{target} is not an artifact, so --force does not replace it: name another target with --to")


@contextmanager
def _working_folder(target: Path) -> Iterator[Path]:
    """A locked, empty directory beside the target; leftovers of a killed export are removed."""
    folder = target.with_name(f".{target.name}.making")
    lock = _lock_folder(folder)
    try:
        for leftover in folder.iterdir():
            SafeFolder(folder).remove(leftover.name)
        yield folder
    finally:
        SafeFolder(folder.parent).remove(folder.name)
        os.close(lock)


def _lock_folder(folder: Path) -> int:
    """Wait for a lock on the directory; returns its descriptor."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir()
        # If the directory is gone again, it belonged to another export, which has ended.
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(lock, folder):
                return lock
            os.close(lock)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _fill_folder(
    folder: Path, repository: Repository, manifest: Manifest, task_file: bytes, node_folder: NodeFolder
) -> str:
    (folder / MANIFEST).write_bytes(manifest.text.encode())
    (folder / PARAMS).write_text(params_text(manifest))
    (folder / TASK_FILE).write_bytes(task_file)
    (folder / PATCH).write_bytes(repository.patches.between(manifest.baseline_commit, manifest.commit))
    write_bundle(repository.git, manifest.baseline_tree, manifest.tree, folder / BUNDLE)
    for name in FROM_THE_NODE:
        with suppress(FileNotFoundError):
            (folder / name).write_bytes(node_folder.read(name))
    sums = {}
    for path in folder.iterdir():
        if path.stat().st_size > size_limit(path.name):
            raise Misuse(
                f"{path.name} would be larger than {size_limit(path.name) >> 20} MB, the limit of an artifact"
            )
        with path.open("rb") as file:
            sums[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    sums_file = sums_text(sums)
    (folder / SUMS).write_text(sums_file)
    return hashlib.sha256(sums_file.encode()).hexdigest()


def _make_tarball(folder: Path, mtime: int) -> Path:
    """The folder as a tarball, which has the same bytes no matter who makes it and when."""
    tarball = folder.with_name(folder.name + TARBALL)
    with (
        tarball.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted(folder.iterdir()):
            info = tarfile.TarInfo(f"{folder.name}/{path.name}")
            info.size, info.mtime = path.stat().st_size, mtime
            with path.open("rb") as member:
                tar.addfile(info, member)
    return tarball


def _move_into_place(source: Path, target: Path, working_folder: Path) -> None:
    """Flush the artifact to disk and move it to the target, so that it survives a power failure."""
    for path in (*(source.iterdir() if source.is_dir() else ()), source):
        _sync(path)
    before = working_folder / "before"
    if source.is_dir() and target.is_dir():
        target.rename(before)  # a directory cannot be replaced atomically
    try:
        source.rename(target)
    except OSError:
        if before.is_dir():
            before.rename(target)
        raise
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
