"""An artifact: a winner as one folder or tarball, with everything needed to measure it again on a clean machine.

An artifact may come from anywhere: only plain files with known names and bounded sizes are accepted, and only if
their checksums match.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.engine.protocols import CommittedFiles
from loopty.kit.records import Record
from loopty.kit.temporary_folder import temporary_folder
from loopty.workspaces.git_bundle import unpack_bundle
from loopty.workspaces.git_session import GitError
from loopty.workspaces.manifest import Manifest
from loopty.workspaces.repository import Repository

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
    """The largest size of a file of this name, in bytes."""
    return _LARGEST_BUNDLE if name == BUNDLE else _LARGEST


@contextmanager
def open_artifact(path: Path) -> Iterator[Artifact]:
    """The artifact at this path: a checked copy of its files, gone when the block ends. Raises Misuse."""
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
    """The files of a tarball, header by header: `tarfile` would load extended headers of any size into memory."""
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
    """The checksums in the format of `sha256sum --check`."""
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(sums) if name != SUMS)


def params_text(manifest: Manifest) -> str:
    return json.dumps(dict(manifest.params), indent=2) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
