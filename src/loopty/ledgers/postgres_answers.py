"""What a server may answer to a query of a ledger: the columns that were asked for, and values that fit them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from loopty.domain.pool import Pool
from loopty.record.pages import FACTS_KEY, RUN_KEY

_SELECTED = re.compile(r"SELECT ([a-z_., ]+) FROM")
"""Columns only: what is counted or compared is checked where it is used."""
_TYPES = {
    **dict.fromkeys(("number", "last.number", "place", "handle", "run", "waits", "version"), int),
    **dict.fromkeys(("kind", "body", "key", "pool", "identity", "facts"), str),
    **dict.fromkeys(("digest", "page_sum", "seal"), bytes),
    "at": float,
}
_NEVER_NULL = {"number", "at", "kind", "body", "key", "digest", "version"}
_KEY = re.compile(rf"{RUN_KEY}[0-9A-Za-z_. ]+|{FACTS_KEY}[0-9]+|[1-9][0-9]*(\.[1-9][0-9]*)*")
"""Of a run, of facts or of a node, whose folder it names."""
_POOLS = {None, *(pool.value for pool in Pool)}


def refuse_misfits(query: str, rows: Sequence[Sequence[Any]]) -> None:
    """Raises ValueError where a column is missing or too many, or has a value of another kind."""
    names = _columns(query)
    if not names or not rows:
        return
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        is_sound = set(map(type, values)) <= {_TYPES[name], *(() if name in _NEVER_NULL else (type(None),))}
        if is_sound and name == "key":
            is_sound = all(map(_KEY.fullmatch, values))
        if not is_sound or (name == "pool" and not _POOLS.issuperset(values)):
            raise ValueError(name)


@cache
def _columns(query: str) -> tuple[str, ...]:
    found = _SELECTED.match(query)
    return tuple(found[1].split(", ")) if found else ()
