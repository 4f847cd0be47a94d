"""An artifact: a winner as one folder or tarball, with everything needed to measure it again on a clean machine.

An artifact may come from anywhere: only plain files with known names and bounded sizes are accepted, and only if
their checksums match.
"""

from __future__ import annotations

import fcntl
import functools
import gzip
import hashlib
import json
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.engine.protocols import CommittedFiles
from loopty.git.bundles import unpack_bundle, write_bundle
from loopty.git.command import GitError
from loopty.git.repository import Repository
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import temporary_folder
from loopty.workspaces.manifest import Manifest
from loopty.workspaces.node_folders import NodeFolder

TARBALL = ".tar.gz"
MANIFEST = "manifest.json"
PATCH = "change.patch"
PARAMS = "params.json"
BUNDLE = "source.bundle"
FROM_THE_NODE = ("result.json", "metrics.csv")
SUMS = "SHA256SUMS"

_REQUIRED = (MANIFEST, PATCH, PARAMS, TASK_FILE, BUNDLE, SUMS)
_LARGEST, _LARGEST_BUNDLE = 64 << 20, 4 << 30
_BLOCK, _CHUNK = tarfile.BLOCKSIZE, 1 << 20


class Artifact(Record):
    """A winner whose files match their checksums."""

    manifest: Manifest
    folder: Path
    digest: str
    """Over all files: artifacts with the same digest are the same."""


class UnpackedArtifact(Record):
    """An artifact as a repository: the baseline is checked out, and the node is a commit on top of it."""

    repository: Repository
    baseline: CommittedFiles
    node: CommittedFiles
    contradictions: tuple[str, ...]
    """Where the files contradict the manifest."""


def size_limit(name: str) -> int:
    """Return the largest size of a file of this name, in bytes."""
    return _LARGEST_BUNDLE if name == BUNDLE else _LARGEST


@contextmanager
def open_artifact(path: Path) -> Iterator[Artifact]:
    """Open the artifact at this path: a checked copy of its files, gone when the block ends. Raises Misuse."""
    with temporary_folder("artifact") as folder:
        try:
            sums = _copy_files(path, Path(folder))
            artifact = _check_artifact(Path(folder), sums)
        except Misuse as error:
            raise Misuse(f"{path}: {error}") from None
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or "it is damaged or not a tarball"
            raise Misuse(f"cannot read {path}: {reason}; make an artifact with `loopty export`") from None
        yield artifact


def unpack_artifact(artifact: Artifact, target: Path) -> UnpackedArtifact:
    """Unpack the artifact as a repository of its own. Raises Misuse when existing files are in the way."""
    target, manifest = target.absolute(), artifact.manifest
    task_file = (artifact.folder / TASK_FILE).read_bytes()
    if (target / ".git").exists():
        raise Misuse(f"{target} is already a repository: name another directory")
    try:
        target.mkdir(parents=True, exist_ok=True)
        repository, baseline, node = unpack_bundle(artifact.folder / BUNDLE, target)
        patched_tree = repository.patches.apply_to_tree(baseline.tree, (artifact.folder / PATCH).read_bytes())
        if tracked := TASK_FILE in repository.entries(baseline.commit, [TASK_FILE]):
            tracked_content = repository.content(baseline.commit, TASK_FILE)
        else:
            _add_untracked_task_file(target, task_file)
    except GitError as error:
        raise Misuse(
            f"the artifact's source cannot be unpacked in {target} ({error})".replace("\n", " ")
        ) from None
    except OSError as error:
        raise Misuse(f"cannot write to {target}: {error.strerror}; name another directory") from None
    comparisons = {
        "tree": (manifest.tree, node.tree),
        "baseline's tree": (manifest.baseline_tree, baseline.tree),
        f"tree after {PATCH}": (manifest.tree, patched_tree or "none: it does not apply"),
        TASK_FILE: (_digest(task_file), _digest(tracked_content if tracked else task_file)),
    }
    contradictions = (
        f"{name}: {expected}, now {actual}"
        for name, (expected, actual) in comparisons.items()
        if expected != actual
    )
    return UnpackedArtifact(repository, baseline, node, tuple(contradictions))


def _add_untracked_task_file(top: Path, task_file: bytes) -> None:
    """Write the task file of a repository that does not track it; the baseline's tree stays unchanged."""
    with (top / TASK_FILE).open("xb") as file:
        file.write(task_file)
    (top / ".git/info").mkdir(exist_ok=True)
    (top / ".git/info/exclude").write_text(f"/{TASK_FILE}\n")


def _copy_files(path: Path, folder: Path) -> dict[str, str]:
    """Copy the files; returns their checksums by name."""
    sums: dict[str, str] = {}
    for name, chunks in _folder_files(path) if path.is_dir() else _tarball_files(path):
        if name not in (*_REQUIRED, *FROM_THE_NODE) or name in sums:
            raise Misuse(f"{name!r} does not belong in an artifact: remove it, or export the node again")
        sums[name] = _copy_file(name, chunks, folder / name)
    if absent := [name for name in _REQUIRED if name not in sums]:
        raise Misuse(f"it has no {', '.join(absent)}, so it is not a complete artifact: export the node again")
    return sums


def _copy_file(name: str, chunks: Iterator[bytes], target: Path) -> str:
    checksum, size = hashlib.sha256(), 0
    with target.open("wb") as file:
        for chunk in chunks:
            size += len(chunk)
            if size > size_limit(name):
                raise Misuse(f"{name} is larger than {size_limit(name) >> 20} MB: this is not an artifact")
            checksum.update(chunk)
            file.write(chunk)
    return checksum.hexdigest()


def _folder_files(path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    for name in sorted(os.listdir(path)):  # noqa: PTH208 - names, not paths
        if not stat.S_ISREG((path / name).lstat().st_mode):
            raise Misuse(f"{name!r} is not a plain file: export the node again")
        with os.fdopen(os.open(path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            yield name, iter(functools.partial(file.read, _CHUNK), b"")


def _tarball_files(path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield a tarball's files, header by header: `tarfile` loads extended headers of any size into memory."""
    if path.exists() and not path.is_file():
        raise Misuse("it is neither a file nor a folder: make an artifact with `loopty export`")
    with gzip.open(path, "rb") as stream:
        while any(header := stream.read(_BLOCK)):
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
            folder, _, name = info.name.rpartition("/")
            if not info.isreg() or info.size < 0 or "/" in folder or folder in ("", ".."):
                raise Misuse(
                    f"{info.name!r} is not a plain file in the one folder of the tarball: export the node again"
                )
            yield name, _read_chunks(stream, info.size)
            stream.read(-info.size % _BLOCK)
        if len(stream.read(_CHUNK)) == _CHUNK:  # otherwise the end is reached, where gzip checks its own checksum
            raise Misuse("it has data after its end: export the node again")


def _read_chunks(stream: gzip.GzipFile, size: int) -> Iterator[bytes]:
    while size:
        chunk = stream.read(min(size, _CHUNK))
        if not chunk:
            raise EOFError
        size -= len(chunk)
        yield chunk


def _check_artifact(folder: Path, sums: Mapping[str, str]) -> Artifact:
    recorded_sums = (folder / SUMS).read_bytes()
    if recorded_sums.decode(errors="replace") != sums_text(sums):
        raise Misuse(f"its files do not match {SUMS}: it was changed or damaged; export the node again")
    manifest = Manifest.parse((folder / MANIFEST).read_bytes())
    if (folder / PARAMS).read_text(errors="replace") != params_text(manifest):
        raise Misuse(f"{PARAMS} and {MANIFEST} do not agree: export the node again")
    return Artifact(manifest, folder, _digest(recorded_sums))


def sums_text(sums: Mapping[str, str]) -> str:
    """Format the checksums as `sha256sum --check` reads them."""
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(sums) if name != SUMS)


def params_text(manifest: Manifest) -> str:
    return json.dumps(dict(manifest.params), indent=2) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# The artifact is built beside its target and then moved there: a kill or a full disk leaves all of it or nothing.


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
    """Make a locked, empty directory beside the target; leftovers of a killed export are removed."""
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
    """Pack the folder as a tarball, which has the same bytes no matter who makes it and when."""
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
