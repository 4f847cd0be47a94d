"""Both ledgers pass the conformance suite; SQLite also survives disk faults and other processes."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import apsw
import pytest
from loopty.record.pages import facts_key

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.kit import codec
from loopty.kit.safe_folder import UnsafePath
from loopty.ledgers.open_ledger import open_ledger
from loopty.ledgers.sqlite import MemoryLedger, SqliteDatabase, SqliteLedger
from loopty.record import recorder as recorders
from loopty.record.history import unreadable_text
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialStarted
from loopty.testing.ledger_suite import LedgerConformance, child_events, run_events


class TestMemoryLedger(LedgerConformance):
    @pytest.fixture
    def ledger(self):
        return MemoryLedger()


class TestSqliteLedger(LedgerConformance):
    @pytest.fixture
    def ledger(self, tmp_path):
        ledger = SqliteLedger(tmp_path / "ledger.sqlite")
        yield ledger
        ledger.close()


def test_the_bundled_sqlite_is_free_of_the_wal_reset_bug():
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)


_WRITER = (
    "import sys, time; from pathlib import Path; from loopty.record.recorder import Recorder\n"
    "from loopty.ledgers.sqlite import SqliteLedger; from loopty.testing.ledger_suite import child_events\n"
    "recorder = Recorder(SqliteLedger(Path(sys.argv[1])), time.time); print('go', flush=True)\n"
    "recorder.saves_rarely = len(sys.argv) > 3\n"
    "for _ in range(int(sys.argv[2])): recorder.record(child_events)\n"
)


def _writer(path: Path, times: int, *options: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", _WRITER, path, str(times), *options], stdout=subprocess.PIPE)


@pytest.mark.parametrize("rarely", [0, 5, 8])
def test_eight_processes_write_one_ledger_and_no_number_is_lost_or_given_twice(tmp_path, rarely):
    path = tmp_path / "ledger.sqlite"
    Recorder(SqliteLedger(path), time.time).record(lambda _: run_events())
    writers = [_writer(path, 25, *["rarely"] * (number < rarely)) for number in range(8)]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0] * 8
    history = SqliteLedger(path).history()
    assert [recorded.number for recorded in SqliteLedger(path).read()] == list(range(1, 203))
    assert sorted(node.sort_key[-1] for node in history.ids if node.parent) == list(range(1, 201))
    assert SqliteLedger(path).flaw() is None


def test_a_writer_killed_at_any_moment_leaves_only_whole_decisions(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Recorder(SqliteLedger(path), time.time).record(lambda _: run_events())
    for pause, *rarely in ((0.01,), (0.03, "rarely"), (0.05,), (0.08, "rarely"), (0.3, "rarely")):
        with _writer(path, 10**9, *rarely) as writer:
            writer.stdout.readline()
            time.sleep(pause)
            os.kill(writer.pid, signal.SIGKILL)
        ledger = SqliteLedger(path)
        events = list(ledger.read())
        assert [recorded.number for recorded in events] == list(range(1, len(events) + 1))
        assert ledger.history().number == len(events)
        assert len(list(ledger.history().ids)) == len(events) - 1
        assert ledger.history().number - ledger.history().saved_number <= recorders._MOST_UNSAVED_EVENTS
        assert ledger.flaw() is None


def _with_unsaved_events(path: Path) -> Recorder:
    """Events 1 to 3 with their pages, 4 and 5 without."""
    late = Recorder(SqliteLedger(path), lambda: 12.5)
    late.record(lambda _: run_events())
    late.record(child_events)
    late.saves_rarely = True
    late.record(child_events)
    late.record(child_events)
    assert (late.history.saved_number, late.history.number) == (3, 5)
    return late


UNSAVED_EDITS = {
    "UPDATE events SET body = json_set(body, '$.summary', 'x') WHERE number = 4": "event 4 was changed",
    "DELETE FROM events WHERE number = 4": "event 5 was changed, or one before it removed",
    "UPDATE pages SET body = json_set(body, '$.verdict', 'kept') WHERE key = '1.1'": "node 1.1 was changed",
    "UPDATE events SET seal = NULL, page_sum = NULL WHERE number = 3": "added or removed",
    "UPDATE events SET seal = NULL, page_sum = NULL": "added or removed",
    "DELETE FROM pages": "added or removed",
}


@pytest.mark.parametrize("edit", UNSAVED_EDITS)
def test_an_edit_by_hand_beside_unsaved_events_is_noticed(tmp_path, edit):
    path = tmp_path / "ledger.sqlite"
    _with_unsaved_events(path)
    assert SqliteLedger(path).flaw() is None
    with sqlite3.connect(path) as db:
        db.execute(edit)
    assert UNSAVED_EDITS[edit] in SqliteLedger(path).flaw()


def test_events_that_do_not_fit_the_saved_pages_are_an_error_in_one_line(tmp_path):
    path = tmp_path / "ledger.sqlite"
    _with_unsaved_events(path)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM pages")
    with pytest.raises(Misuse, match="changed by hand: the record of event 4 is damaged") as caught:
        SqliteLedger(path).history()
    assert "\n" not in str(caught.value)


def test_whoever_writes_next_saves_the_pages_of_earlier_events(tmp_path):
    path = tmp_path / "ledger.sqlite"
    late = _with_unsaved_events(path)
    Recorder(SqliteLedger(path), lambda: 13.0).record(child_events)
    assert SqliteLedger(path).history().saved_number == 6
    late.record(child_events)
    assert sorted(late.history.ids) == ["1", "1.1", "1.2", "1.3", "1.4", "1.5"]
    assert SqliteLedger(path).flaw() is None


def test_pages_that_another_process_saved_without_an_event_leave_no_flaw(tmp_path):
    path = tmp_path / "ledger.sqlite"
    late = _with_unsaved_events(path)
    other = Recorder(SqliteLedger(path), lambda: 13.0)
    other.save()
    late.record(child_events)
    late.save()
    assert SqliteLedger(path).flaw() is None
    assert SqliteLedger(path).history().saved_number == 6


def test_the_last_event_is_asked_for_only_where_somebody_else_has_written(tmp_path):
    path = tmp_path / "ledger.sqlite"
    mine, other = (Recorder(SqliteLedger(path), lambda: 13.0) for _ in range(2))
    mine.record(lambda _: run_events())
    asked = []
    database = mine._ledger._database

    def row(query, parameters=()):
        asked.append("FROM fold" in query)
        return SqliteDatabase.row(database, query, parameters)

    database.row = row

    for _ in range(3):
        mine.record(child_events)
    assert not any(asked)
    other.record(child_events)
    mine.record(child_events)
    assert any(asked)
    assert sorted(mine.history.ids) == ["1", "1.1", "1.2", "1.3", "1.4", "1.5"]
    assert SqliteLedger(path).flaw() is None


def test_a_session_saves_pages_twice_a_second_and_at_its_end(tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setattr(recorders, "_SECONDS_BETWEEN_SAVES", 0.01)
    late = Recorder(SqliteLedger(path), lambda: 12.5)
    late.record(lambda _: run_events())

    async def session() -> None:
        async with late.gathering():
            late.record(child_events)
            assert late.history.saved_number == 2
            while late.history.saved_number == 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            late.record(child_events)
            assert late.history.saved_number == 3

    asyncio.run(session())
    assert SqliteLedger(path).history().saved_number == 4
    late.record(child_events)
    assert SqliteLedger(path).history().saved_number == 5, "after the session, each event with its pages"
    assert SqliteLedger(path).flaw() is None


def test_a_ledger_of_a_newer_loopty_is_refused_with_a_remedy(tmp_path):
    path = tmp_path / "ledger.sqlite"
    SqliteLedger(path).close()
    with apsw.Connection(str(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(Misuse, match="update loopty"):
        SqliteLedger(path)


def test_a_file_that_is_not_a_ledger_is_refused_in_one_line(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(os.urandom(8192))
    with pytest.raises(Misuse, match="cannot use the ledger"):
        SqliteLedger(path)


def test_an_event_of_an_unknown_kind_is_named_with_a_remedy_and_nothing_comes_after_it(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: run_events())
    with apsw.Connection(str(path)) as db:
        db.execute("INSERT INTO events VALUES (3, 0, 'from-the-future', '{}', x'', NULL, NULL)")
    assert "update loopty" in unreadable_text(SqliteLedger(path).history())
    with pytest.raises(Misuse, match="update loopty"):
        recorder.record(child_events)


def test_pages_of_an_older_fold_are_rebuilt_from_the_events(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), time.time)
    recorder.record(lambda _: run_events())
    recorder.record(child_events)
    with apsw.Connection(str(path)) as db:
        db.execute('UPDATE fold SET version = 0; UPDATE pages SET body = \'{"of": "another time"}\'')
    history = SqliteLedger(path).history()
    assert history["1.1"] == recorder.history["1.1"]
    assert codec.plain(history.runs) == codec.plain(recorder.history.runs)


def test_a_ledger_that_has_become_read_only_is_reported_in_one_line(tmp_path):
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    recorder = Recorder(ledger, lambda: 0.0)
    recorder.record(lambda _: run_events())
    ledger._database.execute("PRAGMA query_only = 1")  # what SQLite answers on a disk that turned read-only
    with pytest.raises(Misuse, match="has become read-only: make it writable") as caught:
        recorder.record(child_events)
    assert "\n" not in str(caught.value)
    assert len(list(ledger.read())) == 2


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_link_in_place_of_a_file_of_the_ledger_is_refused(tmp_path, suffix):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "state").mkdir()
    (tmp_path / f"state/ledger.sqlite{suffix}").symlink_to(tmp_path / "mine")
    with pytest.raises(UnsafePath):
        SqliteLedger(tmp_path / "state/ledger.sqlite")
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_link_in_place_of_the_folder_of_the_ledger_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "mine")
    with pytest.raises(UnsafePath):
        SqliteLedger(tmp_path / "state/ledger.sqlite")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_ledger_that_is_replaced_while_it_is_open_is_saved_beside_the_other(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 0.0)
    recorder.record(lambda _: run_events())
    for file in tmp_path.iterdir():
        file.unlink()
    other = Recorder(SqliteLedger(path), lambda: 0.0)
    other.record(lambda _: run_events(7))
    with pytest.raises(Misuse, match="nothing is lost") as caught:
        recorder.record(child_events)
    (saved,) = (file for file in tmp_path.glob("ledger-*.sqlite"))
    assert str(saved) in str(caught.value)
    assert len(list(SqliteLedger(saved).read())) == 3
    recorder.record(child_events)
    assert len(list(SqliteLedger(saved).read())) == 4, "and goes on there"
    assert list(SqliteLedger(path).history().runs) == [7]


SET = "UPDATE pages SET body = json_set(body, "
EDITS = {
    "UPDATE events SET body = json_set(body, '$.summary', 'x') WHERE number = 2": "event 2 was changed",
    "UPDATE events SET at = at + 1 WHERE number = 3": "event 3 was changed",
    "DELETE FROM events WHERE number = 2": "event 3 was changed, or one before it removed",
    "DELETE FROM events WHERE number = 4": "added or removed",
    "INSERT INTO events SELECT 5, at, kind, body, digest, page_sum, seal FROM events WHERE number = 4": "event 5",
    f"{SET}'$.verdict', 'kept') WHERE key = '1.1'": "the record of node 1.1 was changed",
    f"{SET}'$.seed', 9) WHERE key = 'run 1'": "the record of run 1 was changed",
    "DELETE FROM pages WHERE key = '1.1'": "added or removed",
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_by_hand_is_noticed_and_named(tmp_path, edit):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: run_events())
    for _ in range(2):
        recorder.record(child_events)
    assert SqliteLedger(path).flaw() is None
    with sqlite3.connect(path) as db:
        db.execute(edit)
    assert EDITS[edit] in SqliteLedger(path).flaw()


@pytest.mark.parametrize("edit", EDITS)
def test_a_look_at_the_newest_events_notices_what_was_changed_in_them_and_in_every_page(tmp_path, edit):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: run_events())
    for _ in range(2):
        recorder.record(child_events)
    assert SqliteLedger(path).flaw(newest_events=2) is None
    with sqlite3.connect(path) as db:
        db.execute(edit)
    found = SqliteLedger(path).flaw(newest_events=2)
    assert (found is None) == ("number = 2" in edit and "DELETE" not in edit), found


def test_a_look_at_the_newest_nodes_notices_what_was_changed_in_them_and_in_all_that_was_read(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: run_events())
    for _ in range(4):
        recorder.record(child_events)
    assert SqliteLedger(path).flaw(1, 2) is None
    for node, is_seen_at_once in (("1.4", True), ("1.1", False)):
        with sqlite3.connect(path) as db:
            before = db.execute("SELECT body FROM pages WHERE key = ?", (node,)).fetchone()
            db.execute(f"{SET}'$.summary', 'x') WHERE key = ?", (node,))
        ledger, named = SqliteLedger(path), f"the record of node {node} was changed"
        assert (ledger.flaw(1, 2) == named) == is_seen_at_once
        assert ledger.history()[NodeId(node)].summary == "x"
        assert ledger.flaw(1, 2) == named, "it was read"
        assert ledger.flaw() == named
        with sqlite3.connect(path) as db:
            db.execute("UPDATE pages SET body = ? WHERE key = ?", (*before, node))


@pytest.mark.parametrize(
    "column", ["handle = 9", "pool = 'control'", "waits = 1", "identity = 'x'", "facts = '[]'"]
)
def test_an_edit_of_what_a_node_is_found_by_is_noticed(tmp_path, column):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: [*run_events(), TrialStarted(NodeId("1"), 1, Pool.ATTEMPT, "me")])
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE pages SET {column} WHERE key = '1'")
    assert SqliteLedger(path).flaw() == "the record of node 1 was changed"


def test_an_edit_of_the_facts_of_old_nodes_is_noticed_once_they_are_read(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: run_events())
    for _ in range(70):
        recorder.record(child_events)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE pages SET body = replace(body, 'attempt', 'control') WHERE key = '{facts_key(0)}'")
    ledger = SqliteLedger(path)
    assert ledger.flaw(1, 2) is None, "nothing of them was shown yet"
    assert len(list(ledger.history().facts())) == 2
    assert ledger.flaw(1, 2) == ledger.flaw() == "the record of the nodes #1 to #64 was changed"


@pytest.mark.parametrize(
    "damage",
    [
        "nothing",
        "7",
        "[]",
        "[[1],[],{},[],[]]",
        "[[1],[1],{},[[]],[0]]",
        '[[1],[1],{"7":1},[],[0]]',
        '[[1],["x"],{},[[1,"attempt",null,null,"",null,0,true]],[0]]',
        '[["x"],[1],{},[[1,"attempt",null,null,"",null,0,true]],[0]]',
        '[[1],[1],{},[[1,["attempt"],null,null,"",null,0,true]],[0]]',
        '[[1],[1],{},[[1,"attempt",null,null,"",null,0,true]],[1]]',
    ],
)
def test_damaged_facts_are_an_error_in_one_line(tmp_path, damage):
    path = tmp_path / "ledger.sqlite"
    Recorder(SqliteLedger(path), lambda: 12.5).record(lambda _: run_events())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE pages SET body = ? WHERE key = ?", (damage, facts_key(0)))
    with pytest.raises(Misuse, match="what it says about the nodes from #1 on is damaged"):
        list(SqliteLedger(path).history().facts())


@pytest.mark.parametrize(
    ("key", "damage"),
    [
        ("run 1", "nothing"),
        ("run 1", "[]"),
        ("run 1", "[" * 100_000),
        ("run 9 Workers.members 0", '{"a":[1,{}]}'),
        ("run 1 Workers.members x", "{}"),
        ("run 1 Workers.members 0", '{"a":7}'),
        ("run 1 Workers", "{}"),
    ],
)
def test_damaged_runs_are_an_error_in_one_line(tmp_path, key, damage):
    path = tmp_path / "ledger.sqlite"
    Recorder(SqliteLedger(path), lambda: 12.5).record(lambda _: run_events())
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM pages WHERE key = ?", (key,))
        db.execute("INSERT INTO pages (key, body, digest) VALUES (?, ?, zeroblob(32))", (key, damage))
    with pytest.raises(Misuse, match=r"the record of its runs is damaged\. Put back a copy"):
        SqliteLedger(path).history()


def test_a_damaged_node_is_an_error_in_one_line(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Recorder(SqliteLedger(path), lambda: 12.5).record(lambda _: run_events())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE pages SET body = '{}' WHERE key = '1'")
    with pytest.raises(Misuse, match=r"the record of node 1 is damaged\. Put back a copy"):
        SqliteLedger(path).history()[NodeId("1")]


def test_writers_in_turn_and_rebuilt_pages_leave_no_flaw(tmp_path):
    path = tmp_path / "ledger.sqlite"
    one, other = (Recorder(SqliteLedger(path), lambda: 12.5) for _ in range(2))
    one.record(lambda _: run_events())
    for recorder in (other, one, other):
        recorder.record(child_events)
    assert SqliteLedger(path).flaw() is None
    with sqlite3.connect(path) as db:
        db.execute("UPDATE fold SET version = 0")
    ledger = SqliteLedger(path)
    assert ledger.history().number == 5
    assert ledger.flaw() is None


def test_eight_that_make_the_same_ledger_wait_for_each_other(tmp_path):
    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        ready = threading.Barrier(8)

        def make(path: Path = folder / "ledger.sqlite", ready: threading.Barrier = ready) -> None:
            ready.wait()
            SqliteDatabase(path).close()

        with ThreadPoolExecutor(8) as pool:
            for made in [pool.submit(make) for _ in range(8)]:
                made.result()


@pytest.mark.parametrize("name", ["a%b?c#d e.sqlite", "plain.sqlite"])
@pytest.mark.parametrize("form", ["sqlite://{}", "sqlite:{}", "SQLITE://{}"])
def test_an_address_names_its_file_however_it_is_written(tmp_path: Path, name: str, form: str) -> None:
    open_ledger(form.format(quote(str(tmp_path / name)))).close()
    assert (tmp_path / name).is_file()


def test_what_stands_behind_the_path_of_an_address_is_no_part_of_it(tmp_path: Path) -> None:
    open_ledger(f"sqlite://{tmp_path}/one.sqlite?x#y").close()
    assert (tmp_path / "one.sqlite").is_file()


@pytest.mark.parametrize("address", ["memory", "sqlite", "", ":", "mysql://a/b"])
def test_an_address_without_a_known_scheme_is_refused(address: str) -> None:
    with pytest.raises(Misuse, match="names no ledger"):
        open_ledger(address)
