"""The ledger on a PostgreSQL server: conformance, writers on many machines, crashes and lost answers."""

import subprocess
import sys
import time

import pytest

from loopty.domain.errors import LostLease, Misuse
from loopty.executors.process_locks import ProcessLocks
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.open_ledger import PostgresAddress, has_password, open_ledger, without_password
from loopty.record.history import FOLD_VERSION
from loopty.record.ledger import WriteLost
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import LedgerConformance, child_events, run_events


@pytest.fixture
def open_here(ledger_url):
    """Opens the ledger as often as it is called, and closes all of them."""
    opened = []

    def open_it():
        opened.append(open_ledger(ledger_url))
        return opened[-1]

    yield open_it
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_here):
    return open_here()


class TestPostgresLedger(LedgerConformance):
    pass


def execute(ledger, statement, *parameters):
    """What somebody else does in the database."""
    ledger._server.line.connection().execute(statement, parameters)


def expire(ledger, owner):
    execute(ledger, "UPDATE leases SET expires = clock_timestamp() - interval '1 s' WHERE owner = %s", owner)


def owners_of(ledger, folder):
    from loopty.features.shared.postgres import PostgresLeases

    folder.mkdir(exist_ok=True)
    # Renewed by hand: a test that waits for a clock is a test of luck.
    return PostgresLeases(ledger._server, ProcessLocks(SafeFolder(folder)), renewal_seconds=3600.0)


@pytest.fixture
def driver(open_here, tmp_path):
    """A driver that has begun a run: its ledger, its recorder and its name."""
    ledger = open_here()
    owner = owners_of(ledger, tmp_path / "one machine").claim()
    recorder = Recorder(ledger, time.time)
    recorder.record(lambda _: run_events())
    return ledger, recorder, owner


@pytest.fixture
def other(open_here, tmp_path):
    """Another machine: its ledger, its recorder, and the owners as it sees them."""
    ledger = open_here()
    return ledger, Recorder(ledger, time.time), owners_of(ledger, tmp_path / "another machine")


def test_an_edit_by_hand_is_found(ledger):
    recorder = Recorder(ledger, time.time)
    recorder.record(lambda _: run_events())
    recorder.record(child_events)
    assert ledger.flaw() is None
    execute(ledger, "UPDATE nodes SET body = replace(body, 'a change', 'a gain') WHERE id = '1.1'")
    assert ledger.flaw() == "the record of node 1.1 was changed"


def test_tables_of_an_older_fold_are_made_again(open_here):
    recorder = Recorder(open_here(), time.time)
    recorder.record(lambda _: run_events())
    execute(recorder._ledger, "UPDATE fold SET version = 0")
    again = open_here()
    assert set(again.history().ids) == {"1"}
    assert again.flaw() is None


def test_a_ledger_that_a_newer_loopty_uses_is_refused_with_a_remedy(ledger):
    recorder = Recorder(ledger, time.time)
    execute(ledger, "UPDATE fold SET version = %s", FOLD_VERSION + 1)
    with pytest.raises(Misuse, match="use the same version everywhere"):
        recorder.record(lambda _: run_events())
    with pytest.raises(Misuse, match="update loopty"):
        ledger.history()
    assert list(ledger.read()) == []


def test_two_ledgers_of_one_server_know_nothing_of_each_other(postgres, ledger):
    Recorder(ledger, time.time).record(lambda _: run_events())
    second = open_ledger(postgres.url("a_second_one"))
    assert list(second.read()) == []
    second.close()


def test_a_living_driver_is_left_alone(driver, other):
    _, recorder, owner = driver
    _, other_recorder, owners = other
    assert owners.is_alive(owner)
    found = []
    other_recorder.record(lambda _: found.append(owners.exclude(owner)) or [])
    assert found == [False]
    assert recorder.record(child_events)


def test_a_driver_that_was_taken_for_dead_and_comes_back_changes_nothing(driver, other):
    ledger, recorder, owner = driver
    other_ledger, other_recorder, owners = other
    expire(other_ledger, owner)
    assert not owners.is_alive(owner)
    found = []
    other_recorder.record(lambda history: found.append(owners.exclude(owner)) or child_events(history))
    assert found == [True]
    before = list(other_ledger.read())
    for _ in range(2):
        with pytest.raises(LostLease, match="was taken for dead") as refusal:
            recorder.record(child_events)
    assert "`loopty run` goes on" in str(refusal.value)
    assert list(ledger.read()) == before
    assert ledger.flaw() is None


def test_a_driver_that_was_stopped_and_that_nobody_missed_goes_on(driver, other):
    _, recorder, owner = driver
    expire(other[0], owner)
    assert recorder.record(child_events)
    assert other[2].is_alive(owner)


def test_a_takeover_that_fails_excludes_nobody(driver, other):
    _, recorder, owner = driver
    other_ledger, other_recorder, owners = other
    expire(other_ledger, owner)

    def fail(_):
        assert owners.exclude(owner)
        raise KeyError("something went wrong")

    with pytest.raises(KeyError):
        other_recorder.record(fail)
    assert recorder.record(child_events)


def test_the_clock_of_a_driver_does_not_matter(driver, other, monkeypatch):
    owner, owners, now = driver[2], other[2], time.time()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert owners.is_alive(owner)
    monkeypatch.setattr(time, "time", lambda: 1e12)
    assert owners.is_alive(owner)
    assert abs(driver[0].now() - now) < 3600
    assert abs(other[0].now() - now) < 3600


def test_a_dead_process_of_the_same_machine_is_excluded_at_once(open_here, ledger_url, tmp_path):
    script = (
        "import os, sys, time; from pathlib import Path\n"
        "from loopty.executors.process_locks import ProcessLocks; from loopty.kit.safe_folder import SafeFolder\n"
        "from loopty.ledgers.open_ledger import open_ledger\n"
        "owners = open_ledger(sys.argv[1]).owners(ProcessLocks(SafeFolder(Path(sys.argv[2]))))\n"
        "print(owners.claim(), flush=True); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", script, ledger_url, tmp_path]
    owner = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    ledger = open_here()
    owners, found = owners_of(ledger, tmp_path), []
    Recorder(ledger, time.time).record(lambda _: found.append(owners.exclude(owner)) or [])
    assert owner
    assert found == [True]


def break_next_commit(monkeypatch, ledger, is_sent):
    """The connection breaks at the next COMMIT: before it is sent, or before its answer arrives."""
    import psycopg

    connection, broken = ledger._server.line.connection(), []
    execute_it = connection.execute

    def execute(query, *parameters, **options):
        if query == "COMMIT" and not broken:
            broken.append(True)
            if is_sent:
                execute_it(query)
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return execute_it(query, *parameters, **options)

    monkeypatch.setattr(connection, "execute", execute)
    return broken


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_commit_whose_answer_is_lost_counts_once(ledger, monkeypatch, is_sent):
    recorder = Recorder(ledger, time.time)
    recorder.record(lambda _: run_events())
    broken = break_next_commit(monkeypatch, ledger, is_sent)
    recorder.record(child_events)
    recorder.record(child_events)
    assert broken
    assert set(ledger.history().ids) == {"1", "1.1", "1.2"}
    assert len(list(ledger.read())) == 4
    assert ledger.flaw() is None


def test_a_write_that_never_gets_through_says_so(ledger):
    recorder = Recorder(ledger, time.time)

    def lose(_):
        raise WriteLost("the connection broke")

    with pytest.raises(WriteLost):
        recorder.record(lose)
    assert list(ledger.read()) == []


def test_a_server_that_lost_confirmed_writes_stops_the_driver(driver):
    ledger, recorder, owner = driver
    execute(ledger, "UPDATE leases SET writes = 0 WHERE owner = %s", owner)
    with pytest.raises(Misuse, match="went back to an earlier state"):
        recorder.record(child_events)


_WRITER = (
    "import sys, time; from loopty.record.recorder import Recorder\n"
    "from loopty.ledgers.open_ledger import open_ledger; from loopty.testing.ledger_suite import child_events\n"
    "recorder = Recorder(open_ledger(sys.argv[1]), time.time)\n"
    "for _ in range(int(sys.argv[2])): print(recorder.record(child_events)[0].event.node, flush=True)\n"
)


def test_a_server_killed_during_writes_loses_and_doubles_nothing(postgres, open_here, ledger_url):
    Recorder(open_here(), time.time).record(lambda _: run_events())
    command = [sys.executable, "-c", _WRITER, ledger_url, "40"]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [[] for _ in writers]
    for writer, lines in zip(writers, said, strict=True):  # all have begun when the server goes
        lines.append(writer.stdout.readline().strip())
    for _ in writers:
        postgres.kill()
        postgres.start()
    for writer, lines in zip(writers, said, strict=True):
        lines += writer.communicate()[0].split()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    ledger = open_here()
    events = list(ledger.read())
    assert [item.number for item in events] == list(range(1, len(events) + 1))
    recorded = [str(item.event.node) for item in events[2:]]
    assert sorted(recorded) == sorted(node for lines in said for node in lines)
    assert len(set(recorded)) == len(recorded) == 120
    assert ledger.flaw() is None


def test_a_server_that_goes_away_among_several_statements_is_lost(ledger):
    from psycopg import OperationalError, errors

    from loopty.features.shared.postgres_line import is_lost

    connection = ledger._database.line.connection()
    error = OperationalError("cannot exit pipeline mode while busy")
    assert not is_lost(error, connection)
    error.__context__ = errors.AdminShutdown("terminating connection due to unexpected postmaster exit")
    assert is_lost(error, connection)


def test_a_server_that_is_not_there_is_reported_in_one_line_without_the_password(tmp_path, monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setattr("loopty.features.shared.postgres_line.FIRST_PATIENCE_SECONDS", 0.1)
    with pytest.raises(Misuse, match="check that the server runs") as refusal:
        open_ledger(f"postgresql://me:hunter2@/db?host={tmp_path}")
    assert "hunter2" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_address_is_shown_without_its_secrets_and_names_its_ledger():
    url = "postgresql://me:hunter2@host:5433/db?ledger=night&sslpassword=x&sslmode=require"
    address = PostgresAddress.parse(url)
    assert address.shown == "postgresql://me@host:5433/db?ledger=night&sslmode=require"
    assert (address.ledger, has_password(url), has_password(without_password(url))) == ("night", True, False)
    assert address.url == "postgresql://me:hunter2@host:5433/db?sslpassword=x&sslmode=require"
    with pytest.raises(Misuse, match="cannot name a ledger"):
        PostgresAddress.parse("postgresql:///db?ledger=a%22b")


def test_a_driver_that_was_stopped_in_the_middle_of_a_write_goes_on(driver, other):
    ledger, recorder, _ = driver
    calls = []

    def decide(history):
        calls.append(1)
        if len(calls) == 1:
            connection = ledger._server.line.connection()
            connection.execute("SET idle_in_transaction_session_timeout = '1ms'")
            wait_until_gone(connection.info.backend_pid)
        return child_events(history)

    def wait_until_gone(backend):
        deadline = time.monotonic() + 120
        while other[0]._server.rows("SELECT 1 FROM pg_stat_activity WHERE pid = ?", (backend,)):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    recorder.record(decide)
    assert len(calls) == 2
    assert set(ledger.history().ids) == {"1", "1.1"}
    assert ledger.flaw() is None
