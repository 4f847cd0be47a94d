"""Packs of a few hundred small objects, written in this process, and the objects that wait for one in a file that
a kill leaves whole.

Git writes a new object as a file, often in a new folder, and to make three files and their folders can take as
long as the rest of a short proposal. So what commits add is appended to one file, and packed by the hundreds, or
as soon as a git command needs it. A process that is killed leaves its file to the next one in the repository.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from loopty.kit.contents import deflate, sha1, sha256, write_whole
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder

_KINDS = (b"commit", b"tree", b"blob")
_LONGEST_HEAD = 90
_LARGEST_FILE = 256 << 20
"""Nobody lets more wait than a tenth of it."""


def object_name(kind: str, content: bytes, known_id: str) -> str:
    """Return git's name for an object. `known_id` is another object's, whose length says which hash."""
    raw = f"{kind} {len(content)}\0".encode() + content
    return (sha1 if len(known_id) == 40 else sha256)(raw).hexdigest()


class WaitingObjects:
    """The objects of this process that wait, and those that others have left. For one thread at a time."""

    def __init__(self, folder: SafeFolder) -> None:
        self._folder = folder
        self._items: dict[str, NewObject] = {}
        self._unwritten: list[NewObject] = []
        """Files and trees whose commit has not come yet: nobody knows of them."""
        self._file: int | None = None
        self._name = ""
        self._size = 0
        self.bytes = 0
        """Of what waits."""

    def __len__(self) -> int:
        return len(self._items)

    def get(self, name: str) -> NewObject | None:
        return self._items.get(name)

    def items(self) -> list[NewObject]:
        return list(self._items.values())

    def add(self, item: NewObject) -> None:
        """Add an object. With a commit, which comes last, all that it needs is in the file. Raises OSError."""
        if item.name in self._items:
            return
        self._items[item.name] = item
        self._unwritten.append(item)
        self.bytes += len(item.content)
        if item.kind == "commit":
            self._write()

    def _write(self) -> None:
        new, self._unwritten = self._unwritten, []
        try:
            self._append(new)
        except OSError:
            # Only the commit is refused: another one, of another thread, may need the files.
            refused = new.pop()
            del self._items[refused.name]
            self.bytes -= len(refused.content)
            self._unwritten = new
            raise

    def _append(self, new: list[NewObject]) -> None:
        file = self._open()
        if not os.fstat(file).st_nlink:  # somebody has removed it
            self.close()
            file, new = self._open(), self.items()
        records = b"".join(map(_record, new))
        try:
            write_whole(file, records)
        except OSError:
            os.ftruncate(file, self._size)  # half a record would hide those after it
            raise
        self._size += len(records)

    def _open(self) -> int:
        while self._file is None:
            self._name = f"{os.getpid()}-{os.urandom(6).hex()}"
            file = self._folder.file(self._name).open(os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            with contextlib.suppress(OSError):  # a file system without locks: then nobody removes the file
                fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_nlink:
                self._file, self._size = file, 0
            else:  # before it was locked, somebody took it for one that was left
                os.close(file)
        return self._file

    def clear(self) -> None:
        """Forget all that waits: it is in a pack, or nobody needs it."""
        self._items.clear()
        self._unwritten.clear()
        self.bytes = 0
        if self._file is not None and self._size:
            os.ftruncate(self._file, 0)
            self._size = 0

    def close(self) -> None:
        """Remove the file of this process, after `clear`; the next object makes a new one."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._folder.file(self._name).remove()
            os.close(self._file)
            self._file = None

    def left_by_others(self) -> Iterator[list[NewObject]]:
        """Yield what ended processes have left. Each file is removed when the next one is asked for."""
        for place in self._files_of_others():
            with contextlib.suppress(OSError):
                file = place.open(os.O_RDWR)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a living process holds it
                    yield list(_objects(_content(file)))
                    place.remove()
                finally:
                    os.close(file)

    def waiting_elsewhere(self) -> Iterator[list[NewObject]]:
        """Yield what waits in other processes, which pack it soon."""
        for place in self._files_of_others():
            with contextlib.suppress(OSError):
                file = place.open(os.O_RDONLY)
                try:
                    content = _content(file)
                finally:
                    os.close(file)
                yield list(_objects(content))

    def _files_of_others(self) -> Iterator[SafeFile]:
        with contextlib.suppress(OSError):
            yield from (self._folder.file(name) for name in self._folder.names() if name != self._name)


def _record(item: NewObject) -> bytes:
    return f"{item.name} {item.kind} {len(item.content)}\n".encode() + item.content


def _content(file: int) -> bytes:
    size = min(os.fstat(file).st_size, _LARGEST_FILE)
    return os.pread(file, size, 0)


def _objects(content: bytes) -> Iterator[NewObject]:
    """Yield the objects in a file, up to one that is not whole or not what its name says."""
    start = 0
    while (end := content.find(b"\n", start, start + _LONGEST_HEAD)) > 0:
        words = content[start:end].split(b" ")
        if len(words) != 3 or words[1] not in _KINDS or not words[2].isdigit():
            return
        name, kind, size = words[0].decode(errors="replace"), words[1].decode(), int(words[2])
        start = end + 1 + size
        inside = content[end + 1 : start]
        if len(inside) < size or object_name(kind, inside, name) != name:
            return
        yield NewObject(name, kind, inside)


# The format is version 2 of both files, which every git reads: the pack has the objects one after the other, each
# compressed as a whole, and its index has their names in order.


_NUMBERS_OF_KINDS = {"commit": 1, "tree": 2, "blob": 3}
_LARGEST_OFFSET = 1 << 31
BEING_WRITTEN = b"loopty writes this pack\n"
"""In the file that keeps a new pack."""


class NewObject(Record):
    """An object with its content, as git names it."""

    name: str
    kind: str
    content: bytes


def write_pack(folder: Path, prefix: str, objects: Sequence[NewObject]) -> Path:
    """Write a pack of these objects, each of them once; returns its path. It is there as a whole or not at all."""
    digest = sha1 if len(objects[0].name) == 40 else sha256
    rows = []
    parts = [b"PACK" + struct.pack(">II", 2, len(objects))]
    offset = len(parts[0])
    for item in objects:
        entry = _entry(item)
        rows.append((bytes.fromhex(item.name), zlib.crc32(entry), offset))
        parts.append(entry)
        offset += len(entry)
    if offset >= _LARGEST_OFFSET:
        raise OSError("the objects are too large for one pack")
    body = b"".join(parts)
    checksum = digest(body).digest()
    index = _index(sorted(rows), checksum)
    path = folder / f"{prefix}-{checksum.hex()}.pack"
    # Git sees a pack when both files are there, and `git repack` removes each pack that was there when it began,
    # also one without an index. So this one is kept until it is whole. Git removes leftover temporary names.
    keep = path.with_suffix(".keep")
    keep.write_bytes(BEING_WRITTEN)
    try:
        _write(folder / f"tmp_pack_{os.getpid()}_{os.urandom(6).hex()}", body + checksum, path)
        raw = index + digest(index).digest()
        _write(folder / f"tmp_idx_{os.getpid()}_{os.urandom(6).hex()}", raw, path.with_suffix(".idx"))
    finally:
        keep.unlink(missing_ok=True)
    return path


def _entry(item: NewObject) -> bytes:
    """Write the kind and the size, in groups of seven bits after the first four, and the compressed content."""
    size = len(item.content)
    head = [_NUMBERS_OF_KINDS[item.kind] << 4 | size & 15]
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head) + deflate(item.content, 1)


def _index(rows: Sequence[tuple[bytes, int, int]], checksum: bytes) -> bytes:
    """Write names, checksums and offsets, after a table: how many names begin with each byte or a smaller one."""
    counts = [0] * 256
    for name, _, _ in rows:
        counts[name[0]] += 1
    return b"".join(
        (
            b"\377tOc" + struct.pack(">I", 2),
            struct.pack(">256I", *accumulate(counts)),
            b"".join(name for name, _, _ in rows),
            struct.pack(f">{len(rows)}I", *(crc for _, crc, _ in rows)),
            struct.pack(f">{len(rows)}I", *(offset for _, _, offset in rows)),
            checksum,
        )
    )


def names_in_index(path: Path) -> Iterator[str]:
    """Yield the names in a pack's index; its own name says how long they are. Raises OSError when it is gone."""
    raw = path.read_bytes()
    count = struct.unpack_from(">I", raw, 8 + 255 * 4)[0]
    start, size = 8 + 256 * 4, len(path.stem.rpartition("-")[2]) // 2
    return (raw[start + size * row : start + size * (row + 1)].hex() for row in range(count))


def _write(temporary: Path, content: bytes, path: Path) -> None:
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
