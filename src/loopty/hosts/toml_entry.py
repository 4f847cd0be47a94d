"""An addition to a TOML file: one table at its end, between two comments that say whose it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.records import Record

_BEGIN = "# Written by `loopty install`; `loopty uninstall` removes it."
_END = "# End of what `loopty install` wrote."
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
    """As a basic string of TOML, which has the escapes of JSON."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
