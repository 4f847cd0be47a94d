"""The layout of the ledger in SQLite."""

from __future__ import annotations

CALL_EVENTS = (
    "kind IN ('call-reserved', 'call-settled', 'proposal-refused') "
    "OR (kind = 'node-added' AND body -> '$.calls' IS NOT NULL)"
)
"""Which events are about model calls. A partial index has them: a long record without calls costs nothing."""

VERSION = 4
"""The file's user_version. No release wrote another one, so there is nothing to migrate from."""

# Handle, run and pool of a node never change, so that an update of its page touches none of their indexes.
LAYOUT = f"""
CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    digest BLOB NOT NULL,
    page_sum BLOB,
    seal BLOB
);
CREATE TABLE pages (
    place INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    digest BLOB NOT NULL,
    handle INTEGER,
    run INTEGER,
    pool TEXT,
    waits INTEGER,
    identity TEXT,
    facts TEXT
);
CREATE TABLE fold (version INTEGER NOT NULL);
INSERT INTO fold VALUES (0);
CREATE UNIQUE INDEX nodes_by_handle ON pages (handle) WHERE handle IS NOT NULL;
CREATE INDEX nodes_by_pool ON pages (run, pool, handle, key) WHERE handle IS NOT NULL;
CREATE INDEX nodes_by_identity ON pages (identity) WHERE identity IS NOT NULL;
CREATE INDEX waiting_nodes ON pages (run, pool, handle) WHERE waits = 1;
CREATE INDEX call_events ON events (number) WHERE {CALL_EVENTS};
PRAGMA user_version = {VERSION};
"""
