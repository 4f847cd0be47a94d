"""The data of task files that were read before: importing the TOML parser takes longer than a verb's own work."""

from __future__ import annotations

import sys
from typing import Any

from loopty.kit.kept_answers import KeptAnswers

_TASKS = KeptAnswers("tasks", 32)


def known_data(text: str) -> dict[str, Any] | None:
    """The data of this text, where they were kept."""
    data = _TASKS.find(_question(text))
    return data if isinstance(data, dict) else None


def keep_data(text: str, data: dict[str, Any]) -> None:
    """Keep the data of this text, unless JSON cannot hold them."""
    _TASKS.keep(_question(text), data)


def _question(text: str) -> str:
    """Also the version of the parser: another one may read the same text differently."""
    return f"{sys.hexversion}\n{text}"
