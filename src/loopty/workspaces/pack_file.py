"""Writes git packs in this process: a pack of a few hundred small objects takes milliseconds, and no process.

The format is version 2 of both files, which every git reads: the pack has the objects one after the other, each
compressed as a whole, and its index has their names in order.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from loopty.kit.deflate import deflate
from loopty.kit.records import Record
from loopty.kit.short_digest import sha1, sha256

_KINDS = {"commit": 1, "tree": 2, "blob": 3}
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
    """The kind and the size, in groups of seven bits after the first four, and the compressed content."""
    size = len(item.content)
    head = [_KINDS[item.kind] << 4 | size & 15]
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head) + deflate(item.content, 1)


def _index(rows: Sequence[tuple[bytes, int, int]], checksum: bytes) -> bytes:
    """Names, checksums and offsets, after a table of how many names begin with each byte or a smaller one."""
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
    """The names in the index of a pack, whose own name says how long they are. Raises OSError when it is gone."""
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
