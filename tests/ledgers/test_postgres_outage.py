"""A server that is away, restarted, or replaced by its replica, while a process works on its ledger."""

import asyncio
import time

import pytest

from loopty.ledgers.open_ledger import open_ledger
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import child_events, run_events
from loopty.testing.postgres_server import PostgresServer

_LIMIT_SECONDS = 120.0


@pytest.fixture
def own_server(postgres):  # noqa: ARG001 - it skips where there is no PostgreSQL
    """A server that this test may kill."""
    server = PostgresServer()
    yield server
    server.remove()


async def until(condition):
    async with asyncio.timeout(_LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the server tells no event
            await asyncio.sleep(0.02)


async def test_everything_else_goes_on_while_the_server_is_away(own_server):
    ledger = open_ledger(own_server.url())
    recorder, lines = Recorder(ledger, time.time), []
    recorder.on_wait = lines.append
    recorder.record(lambda _: run_events())
    await recorder.wait_for_ledger()
    assert not ledger.is_away()
    own_server.kill()
    await until(ledger.is_away)
    waits = [asyncio.create_task(recorder.wait_for_ledger()) for _ in range(3)]
    await until(lambda: lines)  # so the loop runs meanwhile
    assert not any(wait.done() for wait in waits)
    assert "running trials go on" in lines[0]
    own_server.start()
    async with asyncio.timeout(_LIMIT_SECONDS):
        await asyncio.gather(*waits)
    assert "is back" in lines[1]
    recorder.record(child_events)
    assert ledger.flaw() is None
    ledger.close()


async def test_a_promoted_replica_is_found_and_nothing_is_lost(own_server):
    replica = PostgresServer(own_server)
    try:
        ledger = open_ledger(own_server.url_with(replica, "loopty"))
        recorder = Recorder(ledger, time.time)
        recorder.record(lambda _: run_events())
        recorder.record(child_events)
        number = recorder.history.number
        query = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"
        await until(lambda: ledger._server.rows(query) == [(1,)])
        own_server.kill()
        await until(ledger.is_away)
        waits = asyncio.create_task(recorder.wait_for_ledger())
        replica.promote()
        async with asyncio.timeout(_LIMIT_SECONDS):
            await waits
        recorder.record(lambda history: child_events(history))
        assert recorder.history.number > number
        assert [item.number for item in ledger.read()] == list(range(1, recorder.history.number + 1))
        assert ledger.flaw() is None
        ledger.close()
    finally:
        replica.remove()
