"""Finds the line of a key in a TOML file."""

from __future__ import annotations

import re

_HEADER = r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$"
_KEY = r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"))*)\s*="

KeyPath = tuple[str | int, ...]
"""The keys and list indices that lead to a value."""


class KeyPositions:
    """The line number of every key. A key inside an inline table has the line of that table."""

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {(): 1}
        counts: dict[KeyPath, int] = {}
        table: KeyPath = ()
        for number, line in enumerate(text.split("\n"), start=1):
            if header := re.match(_HEADER, line):
                table = _parts(header[2])
                if header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                self._enter(table, number)
            elif key := re.match(_KEY, line):
                self._enter((*table, *_parts(key[1])), number)

    def _enter(self, path: KeyPath, number: int) -> None:
        """Note the line of a key, and of the tables above it that have no line yet."""
        for end in range(1, len(path) + 1):
            self._lines.setdefault(path[:end], number)

    def line_of(self, path: KeyPath) -> int:
        """The line of this key, or of the nearest table above it."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]


def _parts(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
