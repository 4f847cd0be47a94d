"""Write files that appear complete or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def encode(value: Mapping[str, object]) -> str:
    """One line of standard JSON. Raises ValueError for NaN and Infinity, which are not JSON."""
    return json.dumps(value, allow_nan=False)


def publish_once(path: Path, text: str) -> None:
    """Claim the path, then fill it; a crash in between leaves it empty, which reads as a failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(_create(path))
    except FileExistsError:
        raise FileExistsError(
            f"{path} is already claimed: a trial has one result, so call finish once, in one process"
        ) from None
    _replace(path, text)


def replace(path: Path, text: str) -> None:
    """Write the file so that a reader sees either the old text or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _temporary_path(path).unlink(missing_ok=True)
    _replace(path, text)


def _replace(path: Path, text: str) -> None:
    with os.fdopen(_create(_temporary_path(path)), "w", encoding="utf-8") as file:
        file.write(text)
    _temporary_path(path).replace(path)


def _create(path: Path) -> int:
    # Exclusive creation does not follow a link that somebody planted at the path.
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)


def _temporary_path(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")
