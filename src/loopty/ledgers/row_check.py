"""Finds what somebody changed in a ledger by hand, by the digests of its events and pages."""

from __future__ import annotations

from typing import Any

from loopty.ledgers.digests import NOTHING, event_digest, seal_digest
from loopty.ledgers.row_events import EVENT, LAST_SEAL, event_rows
from loopty.ledgers.row_pages import RowPages
from loopty.ledgers.rows import RowDatabase
from loopty.record.node_facts import BLOCK_SIZE
from loopty.record.pages import FACTS_KEY, RUN_KEY


def record_flaw(
    db: RowDatabase, pages: RowPages, newest_events: int | None, newest_nodes: int | None
) -> str | None:
    """What was changed in all events and pages, in the newest ones, or in a page that was read; or None."""
    last, fault = _check_events(db, newest_events)
    if fault:
        return fault
    _, sealed, total, seal = db.row(LAST_SEAL) or (0, NOTHING, NOTHING, None)
    if newest_nodes is None or pages.count() <= newest_nodes:
        found = pages.first_change()
        changed, total = (found, total) if isinstance(found, str) else (None, found)
    else:
        changed = pages.first_change_among_newest(newest_nodes)
    if changed := changed or pages.first_change_seen():
        return f"the record of {_page_name(changed)} was changed"
    if (seal_digest(sealed, total or NOTHING) if last != NOTHING else None) != seal:
        return "events or nodes were added or removed"
    return None


def _check_events(db: RowDatabase, newest: int | None) -> tuple[bytes, str | None]:
    """The digest of the last event, and what was changed in all events or in the newest ones, or None."""
    start: Any = None
    if newest is not None:
        before = "SELECT number, digest FROM events ORDER BY number DESC LIMIT 1 OFFSET ?"
        start = db.row(before, (newest,))
    after, last = start or (0, NOTHING)
    for number, at, kind, body, digest in event_rows(db, after, f"{EVENT}, digest"):
        last = event_digest(last, number, at, kind, body)
        if last != digest:
            return last, f"event {number} was changed, or one before it removed"
    return last, None


def _page_name(key: str) -> str:
    """What the page with this key is about, in words."""
    if key.startswith(FACTS_KEY):
        first = int(key.removeprefix(FACTS_KEY)) * BLOCK_SIZE + 1
        return f"the nodes #{first} to #{first + BLOCK_SIZE - 1}"
    return key if key.startswith(RUN_KEY) else f"node {key}"
