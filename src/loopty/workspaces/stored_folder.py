"""The folder of a node as contents for the shared store: one with its small files, and one for each large file."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping

from loopty.domain.access import is_clean_path
from loopty.domain.shared_store import StoreFault
from loopty.kit.records import Record
from loopty.workspaces.folded_folders import decode_files, encode_files

_LARGEST_INLINE = 64 << 10
_LARGEST_TOGETHER = 256 << 20
"""Of the small files together, when they are read."""
_LARGE_FILES = ".large-files"
"""The entry that names the large files; no file of a node has this name."""


class LargeFile(Record):
    """A file of a folder that is a content of its own."""

    digest: str
    size: int


class StoredFolder(Record):
    """The files of a folder by their paths."""

    small: Mapping[str, bytes]
    large: Mapping[str, LargeFile]


def encode_folder(files: Iterable[tuple[str, bytes]]) -> tuple[bytes, dict[str, bytes]]:
    """The folder as one content, and the contents of its large files by their digests."""
    small: dict[str, bytes] = {}
    large: dict[str, tuple[str, int]] = {}
    contents = {}
    for path, content in sorted(files):
        if len(content) <= _LARGEST_INLINE:
            small[path] = content
        else:
            digest = hashlib.sha256(content).hexdigest()
            large[path], contents[digest] = (digest, len(content)), content
    if large:
        small[_LARGE_FILES] = json.dumps(large).encode()
    return encode_files(small), contents


def decode_folder(raw: bytes) -> StoredFolder:
    """The folder in a content whose hash was compared. Raises StoreFault where it is none."""
    try:
        stream = zlib.decompressobj()
        stream.decompress(raw, _LARGEST_TOGETHER)
        if stream.unconsumed_tail:
            raise ValueError("it is too large")
        small = decode_files(raw)
        rows = json.loads(small.pop(_LARGE_FILES, b"{}"))
        large = {path: LargeFile(str(digest), int(size)) for path, (digest, size) in rows.items()}
        if not all(map(is_clean_path, (*small, *large))):
            raise ValueError("it names files outside")
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError, zlib.error) as error:
        raise StoreFault(f"a folder in the store cannot be read: {error}") from None
    return StoredFolder(small, large)
