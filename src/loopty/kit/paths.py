"""Paths of a repository: globs over them, names that other machines refuse, and their form in a URL."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable
from urllib.parse import quote, unquote

_IGNORED_BY_HFS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


def name_as_read(name: str) -> str:
    """Return the name in lower case and one unicode form, without the characters that HFS+ ignores."""
    return unicodedata.normalize("NFKC", name.translate(_IGNORED_BY_HFS)).casefold()


_NEVER_QUOTED = frozenset("/_.-~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def quote_path(path: str) -> str:
    """Return the path as part of a URL."""
    if _NEVER_QUOTED.issuperset(path):
        return path

    return quote(path)


def unquote_path(path: str) -> str:
    """Return the path that stands in a URL."""
    if "%" not in path:
        return path

    return unquote(path)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Say whether any pattern names this file or a directory above it."""
    return any(_matcher(pattern)(path) for pattern in patterns)


def literal(path: str) -> str:
    """Return the pattern that names this path alone, whatever signs its name has."""
    return re.sub(r"[*?[]", r"[\g<0>]", path)


def anchor(pattern: str) -> str:
    """Return the deepest literal path that is, or contains, everything the pattern names; empty for the top."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if any(letter in part for letter in "*?["):
            break
        if part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def anchors(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the directories to search for the files that the patterns name; empty means everywhere."""
    found = tuple(dict.fromkeys(map(anchor, patterns)))
    return () if "" in found else found


@functools.cache
def _matcher(pattern: str) -> Callable[[str], object]:
    """Make a function that says whether the pattern names a path or a directory above it."""
    body = "/".join(part for part in pattern.split("/") if part not in ("", "."))
    if body and not any(letter in body for letter in "*?["):  # most patterns: a regex takes longer to make
        return lambda path: path == body or path.startswith(f"{body}/")
    name = body.removeprefix("**/")
    if name != body and not any(letter in name for letter in "*?["):
        return lambda path: f"/{name}/" in f"/{path}/"
    return re.compile(_regex(body) + r"(/.*)?" if body else ".+", re.DOTALL).fullmatch


def _regex(pattern: str) -> str:
    parts, at = [], 0
    while at < len(pattern):
        if pattern.startswith("**/", at) and _starts_part(pattern, at):
            parts.append(r"(?:[^/]+/)*")
            at += 3
        elif pattern[at:] == "**" and _starts_part(pattern, at):
            parts.append(r".+")
            at += 2
        elif pattern[at] == "*":
            parts.append(r"[^/]*")
            at += 1
        elif pattern[at] == "?":
            parts.append(r"[^/]")
            at += 1
        elif pattern[at] == "[" and (end := _class_end(pattern, at)):
            parts.append(_character_class(pattern[at + 1 : end]))
            at = end + 1
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return "".join(parts)


def _starts_part(pattern: str, at: int) -> bool:
    return at == 0 or pattern[at - 1] == "/"


def _class_end(pattern: str, at: int) -> int:
    """Find where a `[…]` class closes; 0 if it never does and the bracket is a plain character."""
    first = at + 2 if pattern[at + 1 : at + 2] == "!" else at + 1
    end = pattern.find("]", first + 1)
    return end if end > 0 and "/" not in pattern[at:end] else 0


def _character_class(inside: str) -> str:
    """Return a regex for one character of the class; a range that runs backwards matches none."""
    negated = inside.startswith("!")
    spans = re.findall(r"(.)-(.)|(.)", inside[1:] if negated else inside, re.DOTALL)
    ranges = "".join(
        f"{re.escape(low or one)}-{re.escape(high or one)}" for low, high, one in spans if low <= high
    )
    return f"(?!/)[{'^' if negated else ''}{ranges}]" if ranges else "[^/]" if negated else "(?!)"
