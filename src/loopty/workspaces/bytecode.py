"""Byte code of the SDK and of frozen files, compiled once and shown read-only to every trial.

It is kept among the exports, by the contents of the sources and by the interpreter. What a trial writes never gets
here: the files are compiled in a sandbox of their own, in which nothing of a candidate is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from loopty.kit import codec
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder, UnsafePath

SDK_FOLDER = "loopty_sdk"
_PREFIX = "bytecode_"
_FILES_FOLDER = "files"
_ORIGINS_FOLDER = "origins"
_FORMAT = 2
_MAX_FILES, _MAX_SOURCE_BYTES, _MAX_BYTECODE_BYTES = 1000, 8 << 20, 64 << 20
_MAX_ENTRIES = 16
_DAY_NS = 86_400_000_000_000
_LONGEST_NAME = 200
"""In bytes: the name of its byte code is longer."""
_TAG = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_HEAD_BYTES = 16
_UNCHECKED_HASH, _CHECKED_HASH = ((flags).to_bytes(4, "little") for flags in (1, 3))


class BytecodeSources(Record):
    """The files whose byte code is wanted: paths below the SDK and below the top of the repository."""

    key: str
    sdk: tuple[str, ...]
    files: tuple[str, ...]


class Bytecode:
    """The byte code that trials with one interpreter see."""

    def __init__(self, exports: SafeFolder, sdk: Path, interpreter: str) -> None:
        """`sdk` is the package on the host; `interpreter` identifies the interpreter and its paths."""
        self._exports = exports
        self._sdk = sdk
        self._interpreter = interpreter
        self._sdk_files = {path.name: path.read_bytes() for path in sorted(sdk.glob("*.py"))}
        self._sdk_digests = {name: hashlib.sha256(text).hexdigest() for name, text in self._sdk_files.items()}

    def sources(self, digests: Mapping[str, str]) -> BytecodeSources:
        """Say what to compile of the SDK and of files that have these digests."""
        names = [name for name in sorted(digests) if _can_have_bytecode(name)][:_MAX_FILES]
        key = self._digest([self._sdk_digests, {name: digests[name] for name in names}])
        return BytecodeSources(f"{_PREFIX}{key}", tuple(self._sdk_files), tuple(names))

    def find(self, sources: BytecodeSources, origin: str = "") -> SafeFolder | None:
        """Find the byte code of these files, or None before it is compiled; `origin` is where they are from."""
        entry = self._exports.below(sources.key)
        if not entry.exists():
            return None
        if origin:
            entry.below(_ORIGINS_FOLDER).make().file(self._origin_name(origin)).write(b"")
        with entry.handle() as descriptor:
            os.utime(descriptor)  # it was used now
        return entry

    def recall(self, origin: str) -> SafeFolder | None:
        """Find the byte code known for files from this origin, without a look at them: a commit may have many."""
        name = self._origin_name(origin)
        for key in self._exports.names():
            if key.startswith(_PREFIX) and self._exports.below(key, _ORIGINS_FOLDER).file(name).exists():
                return self.find(BytecodeSources(key, (), ()))
        return None

    def _origin_name(self, origin: str) -> str:
        return self._digest([self._sdk_digests, origin])

    def _digest(self, contents: Sequence[object]) -> str:
        text = codec.text([_FORMAT, self._interpreter, contents]).encode(errors="surrogateescape")
        return hashlib.sha256(text).hexdigest()[:24]

    def save(self, sources: BytecodeSources, compiled: SafeFolder) -> SafeFolder | None:
        """Keep what the compiler wrote into this folder; None where it did not finish."""
        tag = _content(compiled, "tag", _HEAD_BYTES * 4).decode("ascii", errors="replace")
        if not _TAG.fullmatch(tag):
            return None
        names = [(f"{SDK_FOLDER}/{name}", _UNCHECKED_HASH) for name in sources.sdk]
        names += [(f"{_FILES_FOLDER}/{name}", _CHECKED_HASH) for name in sources.files]
        building = self._exports.below(f"making-{sources.key}-{os.getpid()}-{os.urandom(4).hex()}").make()
        try:
            building.below(SDK_FOLDER).write_files(self._sdk_files)
            room = _MAX_BYTECODE_BYTES
            for number, (name, flags) in enumerate(names):
                content = _content(compiled, f"{number}.pyc", room)
                room -= len(content)
                if content[4:8] == flags and len(content) > _HEAD_BYTES:
                    path = PurePosixPath(name)
                    folder = building.below(*path.parent.parts, "__pycache__")
                    folder.file(f"{path.stem}.{tag}.pyc").write(content)
            self._exports.rename(building.name, sources.key)
        except OSError:
            if not self._exports.below(sources.key).exists():  # otherwise another process was faster
                raise
        finally:
            building.remove_all()
        self._remove_oldest()
        return self.find(sources)

    def _remove_oldest(self) -> None:
        """Keep the byte code that was used last; each can be compiled again."""
        entries = [name for name in self._exports.names() if name.startswith(_PREFIX)]
        for name in sorted(entries, key=self._last_use)[:-_MAX_ENTRIES]:
            if time.time_ns() - self._last_use(name) > _DAY_NS:  # a session looks it up once
                self._exports.remove(name)

    def _last_use(self, name: str) -> int:
        """Tell when the byte code was used last; 0 if another process has just removed it."""
        try:
            with self._exports.below(name).handle() as folder:
                return os.fstat(folder).st_mtime_ns
        except FileNotFoundError:
            return 0


def _can_have_bytecode(name: str) -> bool:
    *folders, last = name.split("/")
    return (
        last.endswith(".py")
        and len(os.fsencode(last)) <= _LONGEST_NAME
        and "\0" not in name
        and not any(folder.endswith(".pyc") for folder in folders)
    )


def is_bytecode(path: str) -> bool:
    """Say whether an interpreter may load this file without a look at the source beside it."""
    return "__pycache__" in path.split("/")


def copy_into_export(bytecode: SafeFolder, export: SafeFolder) -> None:
    """Put the byte code of frozen files beside them; it replaces any that the commit brings for them."""
    _copy_below(bytecode.below(_FILES_FOLDER), export)


def bytecode_of(names: Sequence[str], export: SafeFolder) -> list[str]:
    """List the paths of the byte code that an export has for these files."""
    stems: dict[PurePosixPath, list[str]] = {}
    for path in map(PurePosixPath, names):
        if path.suffix == ".py":
            stems.setdefault(path.parent / "__pycache__", []).append(f"{path.stem}.")
    found: list[str] = []
    for folder, starts in stems.items():
        with contextlib.suppress(UnsafePath):
            inside = export.below(*folder.parts).names()
            found += [str(folder / name) for name in inside if name.startswith(tuple(starts))]
    return found


def _copy_below(source: SafeFolder, target: SafeFolder) -> None:
    for name in source.names():
        if name.endswith(".pyc"):
            # Where the commit has a link instead of a folder, its files are compiled at every start.
            with contextlib.suppress(UnsafePath, IsADirectoryError):
                target.file(name).write(source.file(name).read())
        else:
            _copy_below(source.below(name), target.below(name))


def files_in_limits(folder: SafeFolder, names: Sequence[str]) -> tuple[str, ...]:
    """List the files in the folder to compile, in order, until they are too large together."""
    chosen: list[str] = []
    room = _MAX_SOURCE_BYTES
    for name in names:
        try:
            size = folder.file_at(name).size
        except OSError:
            continue  # a link, or below one
        if 0 < size <= room:
            chosen.append(name)
            room -= size
    return tuple(chosen)


def _content(folder: SafeFolder, name: str, limit: int) -> bytes:
    """Read a file of the compiler; empty if it wrote none, or if it is too large."""
    try:
        content = folder.file(name).read(limit + 1)
    except OSError:
        return b""
    return content if len(content) <= limit else b""
