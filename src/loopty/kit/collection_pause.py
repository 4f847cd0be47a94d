"""Pauses Python's search for garbage, for verbs that make very many objects which stay to the end."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """Look for no garbage meanwhile: among a million nodes that stay to the end, that takes a second."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
