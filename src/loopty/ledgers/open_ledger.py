"""Opens a ledger by its URL: the one table of the kinds of ledgers."""

from __future__ import annotations

from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.by_name import by_name
from loopty.kit.quoted_path import unquote_path
from loopty.record.ledger import Ledger

LEDGERS = {
    "sqlite": "loopty.ledgers.sqlite:open_url",
    "memory": "loopty.ledgers.memory:open_url",
}
"""Scheme of the URL → `module:function` that opens it, given the path of the URL."""
SERVERS = {
    "postgresql": "loopty.ledgers.postgres:open_url",
}
"""Scheme of the URL → `module:function` that opens it, given the whole URL."""


def open_ledger(url: str) -> Ledger:
    """The ledger behind this URL: `sqlite:///home/me/repository/.git/loopty/ledger.sqlite`, `postgresql://…`."""
    scheme, colon, rest = url.partition(":")
    scheme, kinds = scheme.lower(), {**LEDGERS, **SERVERS}
    if not colon or scheme not in kinds:
        from loopty.ledgers.postgres_address import without_password

        shown = without_password(url) if "@" in url else url
        raise Misuse(f"{shown!r} names no ledger: its scheme must be one of {', '.join(kinds)}")
    try:
        open_url: Any = by_name(kinds[scheme])
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "loopty":
            raise
        from loopty.kit.own_installation import extra_command

        raise Misuse(f"a ledger at {scheme}:// needs {error.name}: run {extra_command('postgres')}") from error
    ledger: Ledger = open_url(url if scheme in SERVERS else _path(url, rest))
    return ledger


def _path(url: str, rest: str) -> str:
    if rest.startswith("///") and "?" not in rest and "#" not in rest:
        return unquote_path(rest.removeprefix("//"))
    from urllib.parse import urlsplit

    return unquote_path(urlsplit(url).path)
