"""The layout of the ledger in SQLite, and how each earlier one becomes it."""

from __future__ import annotations


def _rename_kind(old: str, new: str) -> str:
    return f"UPDATE events SET kind = '{new}' WHERE kind = '{old}';"


def _rename_field(kind: str, old: str, new: str) -> str:
    renamed = f"json_remove(json_set(body, '$.{new}', body -> '$.{old}'), '$.{old}')"
    return f"UPDATE events SET body = {renamed} WHERE kind = '{kind}' AND body -> '$.{old}' IS NOT NULL;"


CALL_EVENTS = (
    "kind IN ('call-reserved', 'call-settled', 'proposal-refused') "
    "OR (kind = 'node-added' AND body -> '$.calls' IS NOT NULL)"
)
"""Which events are about model calls. A partial index has them: a long record without calls costs nothing."""

# The statements that migrate each schema version to the next; the file's user_version counts them.
MIGRATIONS = (
    """
    CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL
    );
    CREATE TABLE pages (place INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
    CREATE TABLE fold (version INTEGER NOT NULL);
    INSERT INTO fold VALUES (0);
    """,
    "\n".join(
        (
            _rename_kind("stepped", "rung-changed"),
            _rename_kind("directed", "directive-set"),
            _rename_kind("stalled", "session-stalled"),
            _rename_kind("rebaselined", "run-rebaselined"),
            _rename_kind("reserved", "call-reserved"),
            _rename_kind("settled", "call-settled"),
            _rename_field("run-started", "stated", "criteria_parts"),
            _rename_field("node-added", "asked_after", "known_event"),
            _rename_field("node-added", "left", "remaining_in_reply"),
            _rename_field("node-added", "item", "index_in_reply"),
            _rename_field("proposal-refused", "left", "remaining_in_reply"),
            _rename_field("proposal-refused", "item", "index_in_reply"),
            _rename_field("trial-started", "rival", "incumbent"),
            _rename_field("call-reserved", "worst_tokens", "max_tokens"),
            _rename_field("call-reserved", "worst_money_usd", "max_money_usd"),
        )
    ),
    """
    ALTER TABLE events ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
    ALTER TABLE events ADD COLUMN page_sum BLOB;
    ALTER TABLE events ADD COLUMN seal BLOB;
    ALTER TABLE pages ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
    UPDATE fold SET version = 0;
    """,
    # Handle, run and pool of a node never change, so that an update of its page touches none of their indexes.
    f"""
    ALTER TABLE pages ADD COLUMN handle INTEGER;
    ALTER TABLE pages ADD COLUMN run INTEGER;
    ALTER TABLE pages ADD COLUMN pool TEXT;
    ALTER TABLE pages ADD COLUMN waits INTEGER;
    ALTER TABLE pages ADD COLUMN identity TEXT;
    ALTER TABLE pages ADD COLUMN facts TEXT;
    CREATE UNIQUE INDEX nodes_by_handle ON pages (handle) WHERE handle IS NOT NULL;
    CREATE INDEX nodes_by_pool ON pages (run, pool, handle, key) WHERE handle IS NOT NULL;
    CREATE INDEX nodes_by_identity ON pages (identity) WHERE identity IS NOT NULL;
    CREATE INDEX waiting_nodes ON pages (run, pool, handle) WHERE waits = 1;
    CREATE INDEX call_events ON events (number) WHERE {CALL_EVENTS};
    """,
)
WITH_DIGESTS = 3
"""The schema version from which on events and pages have digests."""
