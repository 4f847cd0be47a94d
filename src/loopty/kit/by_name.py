"""Finds what a table of plug-ins names, when it is needed: `module:name`."""

from __future__ import annotations

import importlib
from typing import Any


def by_name(place: str) -> Any:
    """Import the module of `module:name` and return what has that name."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
