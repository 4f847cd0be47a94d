"""The skills that come with loopty, as a host reads them."""

from __future__ import annotations

from pathlib import Path

from loopty.version import __version__

_FOLDER = Path(__file__).parent / "skills"
_VERSION = "{version}"
OWN_LINE = "compatibility: loopty "
"""A line of every skill of ours; what follows is the version that it needs."""


def shipped_skills() -> dict[str, str]:
    """The text of each skill, by the name of its folder."""
    return {
        path.stem: path.read_text(encoding="utf-8").replace(_VERSION, __version__)
        for path in sorted(_FOLDER.glob("loopty-*.md"))
    }
