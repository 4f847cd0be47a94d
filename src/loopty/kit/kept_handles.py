"""Handles of directories that are kept open for a while, so that what is below them is reached from there."""

from __future__ import annotations

import os
from pathlib import Path

_MOST_STEPS = 3
"""From the root to a directory that is kept open."""


class KeptHandle:
    """The handle of a directory, closed when nobody uses it any more: another thread may still walk from it."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


_KEPT: dict[Path, dict[tuple[str, ...], KeptHandle]] = {}
"""By root and steps."""


def has(root: Path, steps: tuple[str, ...]) -> bool:
    return steps in _KEPT.get(root, ())


def keep(root: Path, steps: tuple[str, ...], descriptor: int) -> None:
    """Keep this handle of the directory, which is closed after `forget`."""
    _KEPT.setdefault(root, {})[steps] = KeptHandle(descriptor)


def forget(root: Path, steps: tuple[str, ...]) -> None:
    """Keep the handle of this directory no longer, if it is kept."""
    handles = _KEPT.get(root, {})
    handles.pop(steps, None)
    if not handles:
        _KEPT.pop(root, None)


def nearest(root: Path, steps: tuple[str, ...]) -> tuple[KeptHandle | None, int]:
    """The kept handle of this directory or of the nearest one above it, and the number of its steps."""
    if _KEPT and (handles := _KEPT.get(root)):
        for count in range(min(len(steps), _MOST_STEPS), 0, -1):
            if (near := handles.get(steps[:count])) is not None:
                return near, count
    return None, 0
