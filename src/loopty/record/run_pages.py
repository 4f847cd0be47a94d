"""The pages of runs: one for each run, and small ones for the entries of its long mappings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any, get_args

from loopty.kit import codec
from loopty.kit.records import field_types, fields_of, is_record, replace
from loopty.record.entry_pages import LONG, EntryPages
from loopty.record.pages import RUN_KEY, UNREADABLE, Page, damaged_page
from loopty.record.run_record import Run, RunPart

_HEAD = attrgetter(*(field.name for field in fields_of(Run) if field.name not in ("parts", "pools")))


class RunPages:
    """Reads and writes runs as a ledger saves them. Parts are values that never change, so each is encoded once.

    The key of a run's page is `run 1`, that of a page of entries `run 1 Workers.members 0`.
    """

    def __init__(self) -> None:
        self._head: tuple[tuple[Any, ...], str] = ((), "")
        """What a run has besides its parts, which hardly ever changes, and the text of it."""
        self._texts: dict[int, tuple[Any, str]] = {}
        """The texts of the last page, with the parts that they encode, by the parts' identity."""
        self._entries: dict[str, dict[str, EntryPages]] = {}
        """The mappings that have pages of their own, by part (`run 1 Workers`) and field."""

    def read(self, pages: Mapping[str, str]) -> list[Run]:
        """The runs that have these pages, which are all that there are. Raises Misuse for what is none."""
        self._entries.clear()
        try:
            return self._read(pages)
        except UNREADABLE as error:
            raise damaged_page("its runs") from error

    def _read(self, pages: Mapping[str, str]) -> list[Run]:
        runs: dict[str, Any] = {}
        for key, text in pages.items():
            head, _, block = key.rpartition(" ")
            if head == RUN_KEY.strip():
                runs[key] = json.loads(text)
            else:
                part, _, field = head.partition(".")
                self._entries.setdefault(part, {}).setdefault(field, EntryPages()).read(int(block), text)
        for part, fields in self._entries.items():
            key, _, name = part.rpartition(" ")
            parts = runs[key].setdefault("parts", {})
            parts.setdefault(name, {}).update(
                {field: entries.mapping() for field, entries in fields.items() if entries}
            )
        return [codec.build(Run, data) for data in runs.values()]

    def changed_pages(self, run: Run) -> dict[str, Page]:
        """The page of a run that has changed, and the pages of its entries that have."""
        key = f"{RUN_KEY}{run.number}"
        entries: dict[str, Page] = {}
        known, self._texts = self._texts, {}

        def encode(name: str, part: Any) -> str:
            found = known.get(id(part))
            if found is None or found[0] is not part:
                found = part, self._part_text(f"{key} {name}", part, entries)
            self._texts[id(part)] = found
            return f'"{name}":{found[1]}'

        def encode_parts(parts: Mapping[str, Any]) -> str:
            return ",".join(encode(name, part) for name, part in parts.items())

        if (head := _HEAD(run)) != self._head[0]:
            self._head = head, codec.text(replace(run, parts={}, pools={}))[1:-1]
        texts = [self._head[1]]
        if run.parts:
            texts.append(f'"parts":{{{encode_parts(run.parts)}}}')
        if run.pools:
            pools = ",".join(f'"{pool}":{{{encode_parts(parts)}}}' for pool, parts in run.pools.items())
            texts.append(f'"pools":{{{pools}}}')
        return {key: Page(f"{{{','.join(texts)}}}"), **entries}

    def _part_text(self, place: str, part: Any, entries: dict[str, Page]) -> str:
        """The part without its long mappings, whose pages go to `entries` where they change."""
        mine = self._entries.get(place, {})
        if isinstance(part, dict):  # as it was read, so that no entry has changed
            return codec.text({name: item for name, item in part.items() if not mine.get(name)})
        if not isinstance(part, RunPart):
            return codec.text(part)
        kind: type = type(part)
        long = {name for name in _mappings(kind) if mine.get(name) or len(getattr(part, name)) >= LONG}
        if not long:
            return codec.text(part)
        for name in long:
            pages = self._entries.setdefault(place, {}).setdefault(name, EntryPages())
            changes = pages.change(getattr(part, name))
            entries |= {f"{place}.{name} {block}": Page(text) for block, text in changes}
        return codec.text({name: item for name, item in codec.stated_fields(part) if name not in long})


@cache
def _mappings(cls: type) -> tuple[str, ...]:
    """The fields of a part that map names to records: their entries get pages of their own where they pay."""
    hints = ((name, get_args(hint)) for name, hint in field_types(cls).items())
    return tuple(name for name, inner in hints if len(inner) == 2 and is_record(inner[1]))
