"""Small contents: written as a whole or not at all, named by a digest, compressed without large tables."""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import TYPE_CHECKING

__all__ = ["blake2b", "sha1", "sha256"]


def write_atomically(
    folder: str | os.PathLike[str],
    name: str,
    content: bytes,
    *,
    durable: bool = False,
    mode: int = 0o666,
    dir_fd: int | None = None,
) -> None:
    """Write a file, replacing any file of this name; create the folder if it is missing.

    With `durable`, content and name are on disk when this returns. With `dir_fd`, the folder is relative to this
    open directory. Git removes leftovers with the temporary name.
    """
    directory = os.fspath(folder)
    temporary = f"{directory}/tmp_obj_{os.getpid()}_{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    for tries_left in (2, 1, 0):
        try:
            file = os.open(temporary, flags, mode, dir_fd=dir_fd)
            break
        except FileNotFoundError:
            if dir_fd is not None or not tries_left:
                raise
            # Git removes empty folders of its objects, also in the moment before the next line of ours.
            os.makedirs(directory, exist_ok=True)  # noqa: PTH103 - pathlib would cost more than the write, here and below
    try:
        try:
            write_whole(file, content)
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, f"{directory}/{name}", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        if durable:
            sync_folder(directory, dir_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        raise


def sync_folder(folder: str, dir_fd: int | None = None) -> None:
    """Flush the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(file: int, content: bytes) -> None:
    """Write all of it to an open file, also where the system takes a part at a time."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


# They are the same digests. For megabytes, `hashlib` is faster.


if TYPE_CHECKING:
    from hashlib import blake2b, sha1, sha256
else:
    try:
        from _blake2 import blake2b
        from _sha1 import sha1

        try:
            from _sha2 import sha256
        except ImportError:  # Python 3.11
            from _sha256 import sha256
    except ImportError:  # a Python that was built without them
        from hashlib import blake2b, sha1, sha256


_SMALL = 8 << 10
_WINDOW_BITS = 13
"""A window as large as the largest small content, so that the result is as short as with any other."""
_MEMORY_LEVEL = 6


def deflate(content: bytes, level: int) -> bytes:
    """Compress the content as `zlib.compress` does, or as short; `zlib.decompress` and git read either."""
    if len(content) > _SMALL:
        return zlib.compress(content, level)
    small = zlib.compressobj(level, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return small.compress(content) + small.flush()
