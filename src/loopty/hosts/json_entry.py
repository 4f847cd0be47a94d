"""An addition to a JSON file: the value of a key, or a member of a list."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.records import Record


class JsonEntry(Record):
    """A value below the keys; with `is_member`, the keys lead to a list that has it as a member."""

    path: Path
    keys: tuple[str, ...]
    value: Any
    is_member: bool = False
    own: str = ""
    """A member whose JSON contains this is an older one of loopty's."""

    def text_with(self, text: str) -> str:
        whole = self._parse(text)
        table = whole
        for key in self.keys[:-1]:
            table = self._table(table.setdefault(key, {}))
        last = self.keys[-1]
        if not self.is_member:
            if table.get(last) == self.value:
                return text
            table[last] = self.value
        else:
            members = table.setdefault(last, [])
            if not isinstance(members, list):
                raise self._strange()
            others = [member for member in members if not self._is_own(member)]
            if members == [*others, self.value]:
                return text
            members[:] = [*others, self.value]
        return self._format(whole, text)

    def text_without(self, text: str) -> str:
        whole = self._parse(text)
        tables = [whole]
        for key in self.keys[:-1]:
            if key not in tables[-1]:
                return text
            tables.append(self._table(tables[-1][key]))
        last = self.keys[-1]
        if last not in tables[-1]:
            return text
        if self.is_member:
            members = tables[-1][last]
            if not isinstance(members, list) or not any(map(self._is_own, members)):
                return text
            members[:] = [member for member in members if not self._is_own(member)]
            if not members:
                del tables[-1][last]
        else:
            del tables[-1][last]
        # The tables that only this entry needed go, too.
        for above, table, key in reversed([*zip(tables, tables[1:], self.keys, strict=False)]):
            if not table:
                del above[key]
        return self._format(whole, text) if whole else ""

    def snippet(self) -> str:
        value = [self.value] if self.is_member else self.value
        for key in reversed(self.keys):
            value = {key: value}
        return json.dumps(value, indent=2)

    def _is_own(self, member: Any) -> bool:
        return member == self.value or bool(self.own and self.own in json.dumps(member))

    def _parse(self, text: str) -> dict[str, Any]:
        if not text.strip():
            return {}
        try:
            return self._table(json.loads(text))
        except ValueError:
            raise Misuse(
                f"{self.path} is not plain JSON (comments?), so loopty does not edit it: paste this yourself:\n"
                f"{self.snippet()}"
            ) from None

    def _table(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._strange()
        return value

    def _strange(self) -> Misuse:
        where = ".".join(self.keys)
        return Misuse(
            f"{self.path} has something else where {where} belongs: correct it, or paste:\n{self.snippet()}"
        )

    @staticmethod
    def _format(whole: dict[str, Any], before: str) -> str:
        """As JSON, with the indentation that the file had."""
        found = re.search(r"^\{\s*\n([ \t]+)\S", before)
        return json.dumps(whole, indent=found[1] if found else 2, ensure_ascii=False) + "\n"
