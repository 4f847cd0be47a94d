"""Atomic writes: a file is there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os


def write_atomically(
    folder: str | os.PathLike[str], name: str, content: bytes, *, durable: bool = False, mode: int = 0o666
) -> None:
    """Write a file, replacing any file of this name; create the folder if it is missing.

    With `durable`, content and name are on disk when this returns. Git removes leftovers with the temporary name.
    """
    directory = os.fspath(folder)
    temporary = f"{directory}/tmp_obj_{os.getpid()}_{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        file = os.open(temporary, flags, mode)
    except FileNotFoundError:
        os.makedirs(directory, exist_ok=True)  # noqa: PTH103 - pathlib would cost more than the write, here and below
        file = os.open(temporary, flags, mode)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(file, rest) :]
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, f"{directory}/{name}")  # noqa: PTH105
        if durable:
            sync_folder(directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def sync_folder(folder: str) -> None:
    """Flush the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
