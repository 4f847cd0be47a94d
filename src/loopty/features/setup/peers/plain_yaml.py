"""Reads the plain part of YAML: what other tools' settings are written in.

Maps, lists, plain and quoted values, and block texts. Anchors, tags and merges are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_KEY = re.compile(r"""("[^"]*"|'[^']*'|[^\s#:{}\[\],][^#:{}\[\]]*?)\s*:(?:\s+|$)""")
_BLOCK = re.compile(r"[|>][+-]?\d?$")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_yaml(text: str) -> dict[str, Any]:
    """Read a document; empty for what is no map, or not plain."""
    lines = _Lines([line.rstrip() for line in text.expandtabs().splitlines()])
    try:
        found = _node(lines, 0)
    except (ValueError, IndexError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class _Lines:
    """The lines that were not read yet."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def next_indent(self) -> int:
        """Skip empty lines and comments, and return the indentation of the next; -1 at the end."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line.lstrip().startswith("#") and line not in ("---", "..."):
                return _indent(line)
            self._at += 1
        return -1

    def take(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def look(self) -> str:
        return self._lines[self._at]

    def put_back(self, line: str) -> None:
        self._at -= 1
        self._lines[self._at] = line

    def block(self, above: int) -> Iterator[str]:
        """Yield the lines that are indented deeper, with the empty ones among them."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line and _indent(line) <= above:
                return
            yield self.take()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _node(lines: _Lines, least: int) -> Any:
    indent = lines.next_indent()
    if indent < least:
        return None
    return _list(lines, indent) if lines.look().lstrip().startswith("-") else _map(lines, indent)


def _map(lines: _Lines, indent: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while lines.next_indent() == indent and not lines.look().lstrip().startswith("- "):
        line = lines.take()
        key = _KEY.match(line, indent)
        if key is None:
            raise ValueError(line)
        found[str(_scalar(key[1]))] = _value(lines, line[key.end() :].strip(), indent)
    return found


def _list(lines: _Lines, indent: int) -> list[Any]:
    found = []
    while lines.next_indent() == indent and lines.look().lstrip().startswith("-"):
        line = lines.take()
        rest = line[indent + 1 :]
        if rest.strip() and _KEY.match(rest.strip()) and rest.strip()[0] not in "[{":
            lines.put_back(" " * (indent + 1) + rest)
            found.append(_node(lines, indent + 1))
        else:
            found.append(_value(lines, rest.strip(), indent))
    return found


def _value(lines: _Lines, text: str, indent: int) -> Any:
    if _BLOCK.match(text.partition(" #")[0].strip()):
        return _block_text([*lines.block(indent)], is_folded=text.startswith(">"))
    if text and not text.startswith("#"):
        if text[0] in "[{" and text.count(text[0]) > text.count("]" if text[0] == "[" else "}"):
            text = " ".join([text, *(line.partition(" #")[0].strip() for line in lines.block(indent))])
        if text[0] in "\"'" and (len(text) == 1 or text.count(text[0]) == 1):  # a quoted text over several lines
            text = " ".join([text, *(line.strip() for line in lines.block(indent))])
        return _scalar(text)
    deeper = lines.next_indent()
    is_list_here = deeper == indent and lines.look().lstrip().startswith("- ")
    return _node(lines, indent if is_list_here else indent + 1) if deeper >= indent else None


def _block_text(lines: list[str], is_folded: bool) -> str:
    least = min((_indent(line) for line in lines if line.strip()), default=0)
    plain = [line[least:] for line in lines]
    return (" " if is_folded else "\n").join(plain).strip()


def _scalar(text: str) -> Any:
    """Read one value, without the comment after it."""
    text = text.strip()
    if text[:1] in ("[", "{"):
        return _flow(text)
    if text[:1] in ('"', "'") and (end := text.find(text[0], 1)) > 0:
        return text[1:end] if text[0] == "'" else text[1:end].replace("\\n", "\n")
    text = text.partition(" #")[0].strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        return text


def _flow(text: str) -> Any:
    """Read `[a, b]` or `{a: b}` on one line."""
    body = text[1 : text.rindex("]" if text[0] == "[" else "}")]
    parts = [part for part in _split(body) if part.strip()]
    if text[0] == "[":
        return [_scalar(part) for part in parts]
    pairs = (part.partition(":") for part in parts)
    return {str(_scalar(key)): _scalar(value) for key, _, value in pairs}


def _split(body: str) -> Iterator[str]:
    """Split at the commas outside of brackets and quotes."""
    depth, quote, start = 0, "", 0
    for at, sign in enumerate(body):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        elif sign == "," and depth == 0:
            yield body[start:at]
            start = at + 1
    yield body[start:]
