"""Other spellings of the task file: older names of keys, and parameters in short form."""

from __future__ import annotations

from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.space import ParameterKind

OLDER = {"statement": "goal", "pools": "budget"}
"""Names of before, at the top of the file → names of now."""


def spelled_out(data: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the data of the file `name` under the names of now, with parameters written out."""
    for older in OLDER.keys() & data.keys():
        if OLDER[older] in data:
            raise Misuse(f"{name} has both {OLDER[older]} and {older}, its older name: keep {OLDER[older]}")
    found = {OLDER.get(key, key): value for key, value in data.items()}
    for table in (found, found.get("combine")):
        if isinstance(table, dict) and isinstance(table.get("parameters"), dict):
            table["parameters"] = {key: _parameter(value) for key, value in table["parameters"].items()}
    return found


def _parameter(data: Any) -> Any:
    """Write out `{ float = [1e-4, 1.0], log = true }`, or return what is no short form."""
    kinds = [kind for kind in ParameterKind if isinstance(data, dict) and kind.value in data]
    if len(kinds) != 1 or "type" in data:
        return data
    (kind,) = kinds
    rest = {key: value for key, value in data.items() if key != kind.value}
    values = data[kind.value]
    if kind is ParameterKind.CATEGORICAL:
        return {"type": kind.value, "choices": values, **rest}
    if isinstance(values, list) and len(values) == 2:
        return {"type": kind.value, "low": values[0], "high": values[1], **rest}
    return {"type": kind.value, **rest}  # what is missing is said as of the long form
