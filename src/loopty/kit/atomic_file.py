"""Atomic writes: a file is there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os


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
