"""What `doctor` found, one row per thing that it looked at."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.kit.records import Record, field


class Finding(Record):
    """One thing that doctor looked at. A thing that only an option needs is no failure when it is missing."""

    name: str
    ok: bool
    detail: str
    needed: bool = True
    facts: Mapping[str, str] = field(default_factory=dict)
    """The detail's facts, for programs."""
