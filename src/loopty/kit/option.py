"""A field of the task file: its default, its bounds, and the sentence that the reference page shows."""

from __future__ import annotations

from typing import Any

from loopty.kit.dataclass import field
from loopty.kit.dataclass_methods import MISSING


def option(doc: str, default: Any = MISSING, **checks: Any) -> Any:
    """A dataclass field; it is required unless it has a default.

    Checks: `minimum`, `above`, `below`, `choices`, `filled`, `glob`.
    """
    metadata = {"doc": doc, **checks}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)
