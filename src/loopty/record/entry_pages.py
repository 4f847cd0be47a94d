"""A long mapping of a run in small pages of its own: a thousand workers change one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain, compress, repeat
from operator import is_not
from typing import Any

from loopty.kit import codec

LONG = 16
"""A mapping with fewer entries stays in the page of its run."""
BLOCK_SIZE = 8
"""Entries in a page: each change of one writes all of them."""
_NOTHING = object()


class EntryPages:
    """One mapping as it was last saved: which entry is in which block, and in which order they were added."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._places: dict[str, tuple[int, int]] = {}
        """The order and the block of each entry."""
        self._blocks: dict[int, dict[str, str]] = {}
        """The texts of the entries of each block; empty for an entry that was read and not written since."""
        self._saved: dict[int, str] = {}
        """The text of each block."""
        self._last_order = 0

    def __len__(self) -> int:
        return len(self._values)

    def read(self, block: int, text: str) -> None:
        """Take the entries of a saved page."""
        self._saved[block], self._blocks[block] = text, {}
        for key, (order, value) in json.loads(text).items():
            self._values[key], self._places[key] = value, (order, block)
            self._blocks[block][key] = ""
            self._last_order = max(self._last_order, order)

    def mapping(self) -> dict[str, Any]:
        """What was read, as plain data, in the order in which the entries were added."""
        self._values = {key: self._values[key] for key in sorted(self._values, key=self._places.__getitem__)}
        return dict(self._values)

    def change(self, mapping: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
        """The blocks that change, with their texts, when the mapping becomes this one."""
        keys = list(mapping)
        touched = self._remove_others(mapping) if keys[: len(self._values)] != list(self._values) else set()
        touched |= self._put_changed(mapping)
        if list(self._values) != keys:  # an entry was removed and added again since the last save
            touched |= self._remove_others({}) | self._put_changed(mapping)
        for block in sorted(touched):
            text = f"{{{','.join(self._blocks[block].values())}}}"
            if text != self._saved.get(block):
                self._saved[block] = text
                yield block, text

    def _remove_others(self, mapping: Mapping[str, Any]) -> set[int]:
        """Remove the entries that the mapping does not have; returns their blocks."""
        touched = set()
        for key in self._values.keys() - mapping.keys():
            del self._values[key]
            _, block = self._places.pop(key)
            del self._blocks[block][key]
            touched.add(block)
        return touched

    def _put_changed(self, mapping: Mapping[str, Any]) -> set[int]:
        """Put the entries whose values are not the saved ones, where both are in one order; returns their blocks.

        Values never change, so that they are the same where they are identical: this looks at all of them.
        """
        differ = map(is_not, mapping.values(), chain(self._values.values(), repeat(_NOTHING)))
        changed = list(compress(mapping.items(), differ))
        for key, value in changed:
            order, block = self._places.get(key) or self._add(key)
            self._values[key] = value
            self._blocks[block][key] = f"{codec.text(str(key))}:[{order},{codec.text(value)}]"
        return {self._places[key][1] for key, _ in changed}

    def _add(self, key: str) -> tuple[int, int]:
        """The place of a new entry: the last in order, in the first block with room."""
        self._last_order += 1
        blocks = (number for number, entries in self._blocks.items() if len(entries) < BLOCK_SIZE)
        block = min(blocks, default=len(self._blocks))
        self._places[key] = self._last_order, block
        self._blocks.setdefault(block, {})
        return self._places[key]
