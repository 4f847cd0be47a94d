"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os


def write_atomically(
    folder: str | os.PathLike[str], name: str, content: bytes, *, durable: bool = False, mode: int = 0o666
) -> None:
    """Write the file, in the place of what has the name; a missing folder is made.

    With `durable` content and name are on the disk when this returns. The temporary name is one that git sweeps.
    """
    place = os.fspath(folder)
    making = f"{place}/tmp_obj_{os.getpid()}_{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        file = os.open(making, flags, mode)
    except FileNotFoundError:
        os.makedirs(place, exist_ok=True)  # noqa: PTH103 - pathlib costs more than the writing, here and below
        file = os.open(making, flags, mode)
    try:
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        os.replace(making, f"{place}/{name}")  # noqa: PTH105
        if durable:
            sync_folder(place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(making)  # noqa: PTH108
        raise


def sync_folder(folder: str) -> None:
    """Have the names in the folder on the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
