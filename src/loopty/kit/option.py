"""A field of the task file: its default, its bounds, and the sentence that the reference page shows."""

from __future__ import annotations

from dataclasses import MISSING, field
from typing import Any


def option(doc: str, default: Any = MISSING, **checks: Any) -> Any:
    """A dataclass field; it is required unless it has a default.

    Checks: `minimum`, `above`, `below`, `choices`, `filled`, `glob`.
    """
    metadata = {"doc": doc, **checks}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)
