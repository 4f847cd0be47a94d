"""The table of runs: a row for each part of a run, and for each entry of a part's mapping of records.

Parts and entries never change, others take their places: so what has to be written is found by identity. Entries
(workers, reservations, running trials) have rows of their own, because a thousand workers would otherwise be
written again with each of their trials.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from loopty.kit import codec
from loopty.kit.records import field_types, fields_of, is_record, replace
from loopty.record.database import NOTHING, UNREADABLE, Database, DigestSum, damaged, row_digest
from loopty.record.run_record import Run

_HEAD = "run"
"""The name of the row that says what a run has besides its parts."""
_head_of = attrgetter(*(field.name for field in fields_of(Run) if field.name not in ("parts", "pools")))
_COLUMNS = "place, run, part, entry, body, digest"
_READ = f"SELECT {_COLUMNS} FROM runs ORDER BY place"
_SAVE = (
    f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (place) DO UPDATE SET body = excluded.body, digest = excluded.digest"
)

_Place = tuple[int, str, str]
"""A run, the name of a part (`Workers`, `attempt Proposals`), and the field whose entries are meant."""


class _Row(NamedTuple):
    """A row as it was read or written last."""

    place: int
    """Entries are read in the order of their places."""
    value: Any
    digest: bytes


class RunRows:
    """The runs of one history as they are saved."""

    def __init__(self, db: Database, total: DigestSum) -> None:
        self._db = db
        self._sum = total
        self._rows: dict[_Place, dict[str, _Row]] = {}
        """By the names of entries; what has none stands under the empty name."""
        self._last_place = 0
        self._changed: list[tuple[Any, ...]] = []
        self._gone: list[tuple[int]] = []

    def read(self) -> list[Run]:
        """Read all runs. Raises Misuse for rows that no loopty wrote."""
        self._rows.clear()
        self._last_place = 0
        runs: dict[int, dict[str, Any]] = {}
        try:
            for place, run, part, entry, body, digest in self._db.rows(_READ):
                name, value = json.loads(body) if entry else ("", json.loads(body))
                _add(runs.setdefault(run, {}), part, entry, name, value)
                self._rows.setdefault((run, part, entry), {})[name] = _Row(place, value, digest)
                self._last_place = place
            return [codec.build(Run, data) for data in runs.values()]
        except UNREADABLE as error:
            raise damaged("its runs") from error

    def save(self, run: Run) -> None:
        """Write what has changed in a run."""
        head = _head_of(run)
        if self._value(run.number, _HEAD) != head:
            self._put((run.number, _HEAD, ""), "", head, codec.text(replace(run, parts={}, pools={})))
        for pool, parts in {"": run.parts, **run.pools}.items():
            for name, part in parts.items():
                self._save_part(run.number, f"{pool} {name}" if pool else name, part)
        if self._changed:
            self._db.execute_many(_SAVE, self._changed)
        if self._gone:
            self._db.execute_many("DELETE FROM runs WHERE place = ?", self._gone)
        self._changed, self._gone = [], []

    def _value(self, run: int, part: str) -> Any:
        row = self._rows.get((run, part, ""), {}).get("")
        return row.value if row else None

    def _save_part(self, run: int, name: str, part: Any) -> None:
        known = self._value(run, name)
        kind: type = type(part)
        if known is part or (known is not None and kind is dict):  # plain data is as it was read
            return
        mappings: tuple[str, ...] = () if kind is dict else _mappings(kind)
        rest = part
        if mappings:
            rest = {field: item for field, item in codec.stated_fields(part) if field not in mappings}
        self._put((run, name, ""), "", part, codec.text(rest))
        for field in mappings:
            self._save_entries((run, name, field), getattr(part, field))

    def _save_entries(self, place: _Place, entries: Mapping[str, Any]) -> None:
        known = self._rows.setdefault(place, {})
        for name in known.keys() - entries.keys():
            self._remove(known.pop(name))
        last = 0
        for name, value in entries.items():
            row = known.get(name)
            if row and row.place < last:  # it was removed and added again
                self._remove(known.pop(name))
                row = None
            if row is None or row.value is not value:
                self._put(place, name, value, f"[{codec.text(str(name))},{codec.text(value)}]")
            last = known[name].place

    def _put(self, place: _Place, name: str, value: Any, body: str) -> None:
        rows = self._rows.setdefault(place, {})
        old = rows.get(name)
        if old is None:
            self._last_place += 1
        number, before = (old.place, old.digest) if old else (self._last_place, NOTHING)
        digest = row_digest(number, *place, body)
        rows[name] = _Row(number, value, digest)
        if digest != before:
            self._sum.replace(before, digest)
            self._changed.append((number, *place, body, digest))

    def _remove(self, row: _Row) -> None:
        self._sum.replace(row.digest, NOTHING)
        self._gone.append((row.place,))


def _add(run: dict[str, Any], part: str, entry: str, name: str, value: Any) -> None:
    """Add what one row says to the plain data of its run."""
    if not isinstance(value, dict):
        raise TypeError("no part")
    if part == _HEAD:
        run.update(value)
        return
    pool, _, kind = part.rpartition(" ")
    parts = run.setdefault("pools", {}).setdefault(pool, {}) if pool else run.setdefault("parts", {})
    if entry:
        parts[kind].setdefault(entry, {})[name] = value
    else:
        parts[kind] = value


def sum_digests_of_runs(db: Database, total: DigestSum) -> str | None:
    """Add up the digests of all rows of runs; the name of the first that does not match its own, or None."""
    for place, run, part, entry, body, digest in db.rows(_READ):
        if row_digest(place, run, part, entry, body) != digest:
            named = "" if part == _HEAD else f" {part}"
            return f"run {run}{named}{'.' * bool(entry)}{entry}"
        total.replace(NOTHING, digest)
    return None


@cache
def _mappings(cls: type) -> tuple[str, ...]:
    """List the fields of a part that map names to records."""
    hints = ((name, get_args(hint)) for name, hint in field_types(cls).items())
    return tuple(name for name, inner in hints if len(inner) == 2 and is_record(inner[1]))
