"""A server that is away, restarted, or replaced by its replica, while a process works on its ledger."""

import asyncio
import time

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec, Role, Usage
from loopty.domain.task import Pools
from loopty.features.shared import postgres_line
from loopty.ledgers.open_ledger import open_ledger
from loopty.models.meter import Meter, RequestSize, Settlements, Subject
from loopty.models.purse import RunPurse
from loopty.models.retry import Throttle
from loopty.record.recorder import Recorder
from loopty.testing.executor_suite import score_x
from loopty.testing.ledger_suite import child_events, run_events

from ...harnesses.pool_harness import PoolHarness
from ...servers.postgres_server import PostgresServer

_LIMIT_SECONDS = 120.0


@pytest.fixture
def own_server(postgres):  # noqa: ARG001 - it skips where there is no PostgreSQL
    """A server that this test may kill."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.mark.parametrize(
    ("words", "passes"),
    [
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  the database system is not yet accepting connections", True),
        ("FATAL:  the database system is not accepting connections", True),
        ("FATAL:  the database system is in recovery mode", True),
        ("FATAL:  the database system is shutting down", True),
        ('FATAL:  password authentication failed for user "tester"', False),
        ('FATAL:  database "lopty" does not exist', False),
    ],
)
def test_a_server_that_comes_up_is_waited_for_and_a_wrong_name_is_not(words, passes):
    assert bool(postgres_line._PASSES.search(f'connection to server on socket "/run/s" failed: {words}')) is passes


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


async def test_reservations_and_workers_that_join_wait_beside_the_loop(own_server):
    """A call of a model, a settlement, and a worker: none of them blocks the loop, and all are recorded later."""
    ledger = open_ledger(own_server.url())
    recorder = Recorder(ledger, time.time)
    recorder.record(lambda _: run_events())
    harness = PoolHarness(recorder=recorder)
    purse = RunPurse(recorder, 1, Pools(), "owner")
    model = ModelSpec("scripted", file="s")
    meter = Meter(Role.EVOLVER, "m", model, None, purse, Throttle(None), Settlements(), time.monotonic)
    size = RequestSize(10, 10, 10)
    first = await meter.reserve(size, Subject("a"))
    own_server.kill()
    await until(ledger.is_away)
    tasks = [
        asyncio.create_task(first.close(Usage(10, 5), "")),
        asyncio.create_task(meter.reserve(size, Subject("b"))),
        asyncio.create_task(harness.add_worker(score_x)),
    ]
    done, _ = await asyncio.wait(tasks, timeout=1.0)  # the loop comes back, because nothing blocks it
    assert not done
    assert not harness.pool.members
    own_server.start()
    async with asyncio.timeout(_LIMIT_SECONDS):
        await asyncio.gather(*tasks)
    names = [type(item.event).__name__ for item in ledger.read()]
    assert names.count("CallReserved") == 2
    assert (names.count("CallSettled"), names.count("WorkerJoined")) == (1, 1)
    await harness.close()
    ledger.close()


async def test_a_process_that_begins_while_the_server_restarts_waits_for_it(own_server, monkeypatch):
    monkeypatch.setattr(postgres_line, "FIRST_PATIENCE_SECONDS", _LIMIT_SECONDS)
    own_server.kill()
    opening = asyncio.create_task(asyncio.to_thread(open_ledger, own_server.url()))
    await asyncio.wait({opening}, timeout=0.5)
    assert not opening.done()
    own_server.start()
    ledger = await asyncio.wait_for(opening, _LIMIT_SECONDS)
    assert ledger.flaw() is None
    ledger.close()


def test_a_process_that_begins_says_why_nothing_answers_and_what_to_do(own_server, monkeypatch):
    monkeypatch.setattr(postgres_line, "FIRST_PATIENCE_SECONDS", 0.3)
    own_server.kill()
    with pytest.raises(
        Misuse, match=r"does not answer, also not after 0.3 s \(.*check that the server runs.*safe"
    ):
        open_ledger(own_server.url())


def test_a_database_that_there_is_not_is_refused_at_once(own_server, monkeypatch):
    """With an hour to wait, only an error that does not wait ends this test in time."""
    monkeypatch.setattr(postgres_line, "FIRST_PATIENCE_SECONDS", 3600.0)
    with pytest.raises(Misuse, match=r'cannot use the ledger.*"nobody" does not exist'):
        open_ledger(own_server.url().replace("/postgres?", "/nobody?"))
