"""A family of events: what it records, which part of a run it keeps, and how each event changes that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopty.record.event import Event
from loopty.record.fold_state import FoldState

Fold = Callable[[FoldState, Any, float], None]
"""Folds one event, recorded at this time, into the state. Constant work, whatever the length of the history."""


@dataclass(frozen=True)
class Family:
    """One file of this room, as the table in `families.py` lists it."""

    events: tuple[type[Event], ...]
    """The events that the family defines. Each is stored under its name: `NodeAdded` as `node-added`."""
    folds: Mapping[type[Event], Fold] = field(default_factory=dict)
    """What the family does at each event; it may fold events of other families, too."""
