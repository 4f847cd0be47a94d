"""Additions to the settings of a host, in JSON, in TOML or as a plug-in: to look for, add and take away."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from loopty.domain.errors import Misuse
from loopty.kit.records import Record


class SettingsEntry(Protocol):
    """An addition to one file. Everything else in the file stays as it is.

    `text_with` and `text_without` raise Misuse where the file cannot be edited without damage.
    """

    @property
    def path(self) -> Path: ...

    def text_with(self, text: str) -> str:
        """Return the file's text with the entry, which replaces an older one of loopty's."""
        ...

    def text_without(self, text: str) -> str:
        """Return the file's text without the entry; the same text if there is none."""
        ...

    def snippet(self) -> str:
        """Return what a person would paste."""
        ...


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
        """Format it as JSON, with the indentation that the file had."""
        found = re.search(r"^\{\s*\n([ \t]+)\S", before)
        return json.dumps(whole, indent=found[1] if found else 2, ensure_ascii=False) + "\n"


_BEGIN = "# Written by `loopty agent install`; `loopty agent uninstall` removes it."
_END = "# End of what `loopty agent install` wrote."
_BLOCK = re.compile(rf"\n?^{re.escape(_BEGIN)}$.*?^{re.escape(_END)}\n?", re.MULTILINE | re.DOTALL)


class TomlEntry(Record):
    """A table with text, numbers and lists of text."""

    path: Path
    keys: tuple[str, ...]
    values: Mapping[str, str | int | list[str]]

    def text_with(self, text: str) -> str:
        rest = self.text_without(text)
        table: Any = self._parse(rest)
        for key in self.keys:
            table = table.get(key) if isinstance(table, dict) else None
        if table is not None:
            raise Misuse(
                f"{self.path} has a table [{'.'.join(self.keys)}] that loopty did not write: remove it first"
            )
        between = "" if not rest or rest.endswith("\n\n") else "\n" if rest.endswith("\n") else "\n\n"
        return f"{rest}{between}{_BEGIN}\n{self.snippet()}\n{_END}\n"

    def text_without(self, text: str) -> str:
        self._parse(text)
        return _BLOCK.sub("", text)

    def snippet(self) -> str:
        lines = [f"{key} = {_literal(value)}" for key, value in self.values.items()]
        return "\n".join([f"[{'.'.join(self.keys)}]", *lines])

    def _parse(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Misuse(f"{self.path} is not valid TOML ({error}): correct it first") from None


def _literal(value: str | int | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return str(value) if isinstance(value, int) else _quote(value)


def _quote(text: str) -> str:
    """Quote the text as a basic string of TOML, which has the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


_FOLDER = Path(__file__).parent / "plugins"
_OWN_LINE = "// Written by `loopty agent install`"


class PluginEntry(Record):
    """A plug-in that comes with loopty. `program` is loopty's command, as a list of words."""

    path: Path
    source: str
    """The name of the file that is shipped."""
    program: Sequence[str]

    def text_with(self, text: str) -> str:
        if text and not text.startswith(_OWN_LINE):
            raise Misuse(f"{self.path} is not a plug-in of loopty's: move it, then try again")
        return self.snippet()

    def text_without(self, text: str) -> str:
        return "" if text.startswith(_OWN_LINE) else text

    def snippet(self) -> str:
        shipped = (_FOLDER / self.source).read_text(encoding="utf-8")
        return shipped.replace("__PROGRAM__", json.dumps([*self.program]))
