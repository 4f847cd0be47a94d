"""Opens a ledger by its URL: the one table of the kinds of ledgers."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import unquote, urlsplit

from loopty.domain.errors import Misuse
from loopty.record.ledger import Ledger

LEDGERS = {
    "sqlite": "loopty.ledgers.sqlite:open_url",
    "memory": "loopty.ledgers.memory:open_url",
}
"""Scheme of the URL → `module:function` that opens it, given the path of the URL."""


def open_ledger(url: str) -> Ledger:
    """The ledger behind this URL, such as `sqlite:///home/me/repository/.git/loopty/ledger.sqlite`."""
    parts = urlsplit(url)
    if parts.scheme not in LEDGERS:
        raise Misuse(f"{url!r} names no ledger: its scheme must be one of {', '.join(LEDGERS)}")
    module, _, name = LEDGERS[parts.scheme].partition(":")
    opened: Any = getattr(importlib.import_module(module), name)(unquote(parts.path))
    ledger: Ledger = opened
    return ledger
