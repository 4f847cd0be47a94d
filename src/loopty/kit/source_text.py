"""The text of a file of somebody's working tree, which may be anything."""

from __future__ import annotations

from pathlib import Path

_LARGEST_FILE = 1 << 20


def source_text(path: Path) -> str:
    """The text of a file; empty where it is missing, large or no regular file."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return ""
        return path.read_text(errors="replace")
    except OSError:
        return ""
