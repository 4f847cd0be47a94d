"""Seals detect changes to files that results depend on, in the repository and at host paths that the
task names.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.errors import Misuse
from loopty.domain.launch import Mount
from loopty.kit import codec
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile

# Within one tick of the kernel's clock a file can change twice with the same time.
_SETTLED_NS = 1_000_000_000
_CHUNK_BYTES = 1 << 20

Signature = tuple[tuple[str, int, int, int, int, int], ...]
"""By name: mode, inode, size, and the times of the last changes; all zeros for a missing file."""


class Seal(Record):
    """The contents of a directory: all of it, or these files and the names beside them."""

    root: Path
    files: tuple[str, ...] | None
    contents: Mapping[str, str]

    def signature(self) -> Signature:
        """Read the metadata that any change affects, even one that was undone."""
        return _signature(self.root, self.files)

    def first_change(self, signature: Signature | None = None) -> str | None:
        """Find the first name whose content changed, or None; `signature` is the present one, if it is known."""
        now = _contents(self.root, self.signature() if signature is None else signature)
        if now == self.contents:
            return None
        return next(
            name
            for name in sorted(itertools.chain(self.contents, now), key=lambda name: (name.endswith("/"), name))
            if self.contents.get(name) != now.get(name)
        )


def load_or_make_seal(root: Path, files: Sequence[str] | None, record: SafeFile) -> Seal:
    """Load the seal that is stored in `record`; make and store it if it does not exist yet."""
    names = None if files is None else tuple(files)
    try:
        return Seal(root, names, json.loads(record.read()))
    except FileNotFoundError:
        seal = current_seal(root, names)
    record.write(json.dumps(dict(seal.contents)).encode())
    return seal


def current_seal(root: Path, files: tuple[str, ...] | None = None) -> Seal:
    """Make the seal of the current contents."""
    return Seal(root, files, _contents(root, _signature(root, files)))


def data_digest(top: Path, names: Sequence[str]) -> str:
    """Compute a digest over the names and contents of the files and directories that `benchmark.data` names."""
    sources = HostPaths(top, names, "benchmark.data").sources()
    contents = [(name, current_seal(path).contents) for name, path in zip(names, sources, strict=True)]
    return hashlib.sha256(codec.text(contents).encode()).hexdigest()


def _contents(root: Path, signature: Signature) -> Mapping[str, str]:
    """Digests by name. Contents are read once per process, unless their metadata shows a change."""
    newest = max((times[-1] for times in signature), default=0)
    settled = time.time_ns() - newest > _SETTLED_NS
    return _read_contents(root, signature, 0 if settled else time.monotonic_ns())


def _signature(root: Path, files: tuple[str, ...] | None) -> Signature:
    names = sorted(_names_below(root)) if files is None else _with_directories(files)
    top = str(root)
    # Without the slash at its end the path of a directory is that of a link which took its place.
    return tuple([_file_state(f"{top}/{name}".removesuffix("/"), name) for name in names])


def _names_below(root: Path) -> Iterator[str]:
    """Yield every file below the root, without following links; the root itself if it is a file."""
    if root.is_symlink() or not root.is_dir():
        yield ""
        return
    for folder, inner, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        links = [name for name in inner if Path(folder, name).is_symlink()]
        for name in (*files, *links):
            yield os.path.normpath(f"{relative}/{name}")


@functools.lru_cache(maxsize=8)
def _with_directories(files: tuple[str, ...]) -> Sequence[str]:
    """List the files and their directories, in order: a file that is planted beside them could be read too."""
    return sorted({*files, *(f"{PurePosixPath(name).parent}/" for name in files)})


def _file_state(path: str, name: str) -> tuple[str, int, int, int, int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return name, 0, 0, 0, 0, 0
    return name, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@functools.lru_cache(maxsize=64)
def _read_contents(root: Path, signature: Signature, unsettled: int) -> Mapping[str, str]:  # noqa: ARG001
    return {name: _digest(root / name, mode) for name, mode, *_ in signature}


def _digest(path: Path, mode: int) -> str:
    if stat.S_ISREG(mode):
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
        return ("x" if mode & 0o111 else "") + digest.hexdigest()
    if stat.S_ISLNK(mode):
        return f"-> {path.readlink()}"
    if stat.S_ISDIR(mode):
        return ", ".join(sorted(inside.name for inside in path.iterdir()))
    return "missing" if mode == 0 else "no file"


class HostPaths:
    """The paths of an option such as `benchmark.mounts`: from the repository's top, or anywhere on the host."""

    def __init__(self, top: Path, paths: Iterable[str], option: str) -> None:
        self._top = top
        self._paths = [os.path.normpath(Path(path).expanduser()) for path in paths]
        self._option = option

    @property
    def paths_inside(self) -> list[str]:
        """List the paths inside the repository."""
        return [path for path in self._paths if _is_inside(path)]

    def includes(self, path: str) -> bool:
        """Say whether a path of the repository is one of these paths or below one."""
        return any(path == named or path.startswith(f"{named}/") for named in self.paths_inside)

    def sources(self) -> list[Path]:
        """List the real paths on the host. Raises Misuse when one does not exist."""
        paths = [self._host_path(path) for path in self._paths]
        for path in paths:
            if not path.exists():
                raise Misuse(f"{self._option} names {path}, which does not exist: create it, or do not name it")
        return [path.resolve() for path in paths]

    def mounts(self, top: str) -> list[Mount]:
        """Mounts of the paths inside the repository below `top`, and of the others at their host paths."""
        targets = [f"{top}/{path}" if _is_inside(path) else str(self._host_path(path)) for path in self._paths]
        return [Mount(source, target) for source, target in zip(self.sources(), targets, strict=True)]

    def mount_points(self) -> dict[str, bool]:
        """Return the paths inside the repository, and whether each is a directory."""
        return {path: self._host_path(path).is_dir() for path in self.paths_inside}

    def _host_path(self, path: str) -> Path:
        return Path(os.path.normpath(self._top / path))


def _is_inside(path: str) -> bool:
    return not path.startswith(("/", "../"))
