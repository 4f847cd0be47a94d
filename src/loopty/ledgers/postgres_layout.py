"""The layout of the ledger in PostgreSQL: one schema for each ledger."""

from __future__ import annotations

CALL_EVENTS = (
    "kind IN ('call-reserved', 'call-settled', 'proposal-refused') "
    "OR (kind = 'node-added' AND position('\"calls\":' IN body) > 0)"
)
"""Which events may be about model calls. Not by JSON operators: PostgreSQL's refuse an escaped zero byte."""

VERSION = 1
"""What the table `layout` says. No release wrote another one, so there is nothing to migrate from."""

LAYOUT = f"""
CREATE TABLE layout (version integer NOT NULL);
INSERT INTO layout VALUES ({VERSION});
CREATE TABLE events (
    number bigint PRIMARY KEY,
    at double precision NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    digest bytea NOT NULL,
    page_sum bytea,
    seal bytea
);
CREATE TABLE pages (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text COLLATE "C" NOT NULL UNIQUE,
    body text NOT NULL,
    handle bigint,
    run bigint,
    pool text,
    waits integer,
    identity text,
    facts text,
    digest bytea NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE fold (version integer NOT NULL);
INSERT INTO fold VALUES (0);
CREATE TABLE leases (
    token bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text UNIQUE,
    expires timestamptz NOT NULL,
    writes bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX nodes_by_handle ON pages (handle) WHERE handle IS NOT NULL;
CREATE INDEX nodes_by_pool ON pages (run, pool, handle) INCLUDE (key) WHERE handle IS NOT NULL;
CREATE INDEX nodes_by_identity ON pages (identity) WHERE identity IS NOT NULL;
CREATE INDEX waiting_nodes ON pages (run, pool, handle) WHERE waits = 1;
CREATE INDEX call_events ON events (number) WHERE {CALL_EVENTS};
"""
