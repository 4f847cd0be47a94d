"""What `doctor` found, thing by thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. What is only missing for an option is no failure."""

    name: str
    ok: bool
    detail: str
    needed: bool = True
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the detail says in words, for programs."""
