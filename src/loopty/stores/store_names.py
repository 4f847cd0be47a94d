"""Which names a store has: nothing that leads outside, whoever made it."""

from __future__ import annotations

import re

MARK = "loopty-store"
"""The name that says that this is a store: an empty mount point has none."""
MARK_TEXT = b"Files of loopty, by their hashes: see docs/many-machines.md.\n"
_NAME = re.compile(r"[A-Za-z0-9-]+(?:[./][A-Za-z0-9-]+)*")


def require_name(name: str) -> str:
    """The name, if it can be one of a store."""
    if not _NAME.fullmatch(name) or len(name) > 400:
        raise ValueError(f"{name!r} cannot be a name in a store")
    return name


def is_store_name(name: str) -> bool:
    """Whether loopty may have given this name."""
    return len(name) <= 400 and _NAME.fullmatch(name) is not None
