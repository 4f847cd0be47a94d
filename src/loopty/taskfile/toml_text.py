"""Plain data as TOML, and one task file laid over another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopty.domain.errors import Misuse


def lay_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the values of the other: tables are joined key by key, anything else is replaced.

    A table with another `kind` replaces the whole table: its options belong to its kind.
    """
    joined = dict(base)
    for key, value in over.items():
        known = joined.get(key)
        is_joined = isinstance(known, Mapping) and isinstance(value, Mapping)
        if is_joined and value.get("kind", known.get("kind")) == known.get("kind"):  # type: ignore[union-attr]
            joined[key] = lay_over(known, value)  # type: ignore[arg-type]
        else:
            joined[key] = value
    return joined


def toml_text(data: Mapping[str, Any]) -> str:
    """The data as TOML, a line for each key of the top."""
    return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in data.items())


def _text(text: str) -> str:
    """A basic string of TOML: that of JSON, with one more letter escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise Misuse(f"a task file holds {value!r}, which is no text, number, list or table: dates have no use there")
