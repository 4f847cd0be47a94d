"""Write files that appear complete or not at all."""

from __future__ import annotations

import os


def publish_once(path: str, text: str) -> None:
    """Claim the path, then fill it; a crash in between leaves it empty, which reads as a failure."""
    try:
        try:
            os.close(_create(path))
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - pathlib is slow to import
            os.close(_create(path))
    except FileExistsError:
        raise FileExistsError(
            f"{path} is already claimed: a trial has one result, so call finish once, in one process"
        ) from None
    _replace(path, text)


def replace(path: str, text: str) -> None:
    """Write the file so that a reader sees either the old text or the new one, never a part."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # noqa: PTH103, PTH120 - pathlib is slow to import
    try:  # noqa: SIM105 - contextlib is slow to import
        os.unlink(_temporary_path(path))  # noqa: PTH108
    except FileNotFoundError:
        pass
    _replace(path, text)


def _replace(path: str, text: str) -> None:
    rest = memoryview(text.encode())
    # Not by a file object: that takes as long as everything else here.
    descriptor = _create(_temporary_path(path))
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
    os.replace(_temporary_path(path), path)  # noqa: PTH105


def _create(path: str) -> int:
    # Exclusive creation does not follow a link that somebody planted at the path.
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)


def _temporary_path(path: str) -> str:
    return f"{path}.tmp"
