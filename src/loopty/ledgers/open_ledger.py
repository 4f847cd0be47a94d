"""Opens a ledger by its URL: the one table of the kinds of ledgers; and what may be shown of such a URL."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from loopty.domain.errors import Misuse
from loopty.kit.by_name import by_name
from loopty.kit.paths import unquote_path
from loopty.kit.records import Record
from loopty.record.ledger import Ledger

_LEDGER = "ledger"
"""The parameter of the URL that names one of several ledgers in a database; the server never sees it."""
_DEFAULT_LEDGER = "loopty"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SECRETS = {"password", "sslpassword", "passfile"}


class PostgresAddress(Record):
    """Where a ledger is."""

    url: str
    """For the client library: it may hold a password, and is never shown."""
    ledger: str
    """The schema of the ledger."""
    shown: str
    """For people: without a password."""

    @classmethod
    def parse(cls, url: str) -> PostgresAddress:
        """Parse the URL. Raises Misuse if it cannot be that of a ledger."""
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
        ledger = next((value for name, value in options if name == _LEDGER), _DEFAULT_LEDGER)
        if not _NAME.fullmatch(ledger):
            raise Misuse(f"{ledger!r} cannot name a ledger: use small letters, digits and underscores")
        plain = [(name, value) for name, value in options if name != _LEDGER]
        return cls(_join(parts.netloc, parts.path, plain), ledger, without_password(url))


def without_password(url: str) -> str:
    """Return the URL as it may be shown and saved."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    options = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in _SECRETS]
    return _join(user.partition(":")[0] + at + host, parts.path, options)


def has_password(url: str) -> bool:
    """Say whether the URL holds a secret."""
    parts = urlsplit(url)
    return ":" in parts.netloc.rpartition("@")[0] or any(name in _SECRETS for name, _ in parse_qsl(parts.query))


def _join(place: str, path: str, options: list[tuple[str, str]]) -> str:
    query = urlencode(options, safe="/", quote_via=quote)
    return f"postgresql://{place}{path}{'?' if query else ''}{query}"


LEDGERS = {
    "sqlite": "loopty.ledgers.sqlite:open_url",
    "memory": "loopty.ledgers.sqlite:open_in_memory",
}
"""Scheme of the URL → `module:function` that opens it, given the path of the URL."""
SERVERS = {
    "postgresql": "loopty.features.shared.postgres:open_url",
}
"""Scheme of the URL → `module:function` that opens it, given the whole URL."""


def open_ledger(url: str) -> Ledger:
    """Open the ledger at this URL: `sqlite:///home/me/repository/.git/loopty/ledger.sqlite`, `postgresql://…`."""
    scheme, colon, rest = url.partition(":")
    scheme, kinds = scheme.lower(), {**LEDGERS, **SERVERS}
    if not colon or scheme not in kinds:
        shown = without_password(url) if "@" in url else url
        raise Misuse(f"{shown!r} names no ledger: its scheme must be one of {', '.join(kinds)}")
    try:
        open_url: Any = by_name(kinds[scheme])
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "loopty":
            raise
        from loopty.kit.installation import extra_command

        raise Misuse(f"a ledger at {scheme}:// needs {error.name}: run {extra_command('postgres')}") from error
    ledger: Ledger = open_url(url if scheme in SERVERS else _path(url, rest))
    return ledger


def _path(url: str, rest: str) -> str:
    if rest.startswith("///") and "?" not in rest and "#" not in rest:
        return unquote_path(rest.removeprefix("//"))

    return unquote_path(urlsplit(url).path)
