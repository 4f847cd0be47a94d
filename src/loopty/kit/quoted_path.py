"""Paths in URLs: most need no quoting, and then `urllib.parse`, a hundredth of a short verb, is not imported."""

from __future__ import annotations

_NEVER_QUOTED = frozenset("/_.-~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def quote_path(path: str) -> str:
    """The path as part of a URL."""
    if _NEVER_QUOTED.issuperset(path):
        return path
    from urllib.parse import quote

    return quote(path)


def unquote_path(path: str) -> str:
    """The path that stands in a URL."""
    if "%" not in path:
        return path
    from urllib.parse import unquote

    return unquote(path)
