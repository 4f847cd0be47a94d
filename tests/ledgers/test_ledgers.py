"""Both ledgers pass the conformance suite; SQLite also survives disk faults and other processes."""

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

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.kit import codec
from loopty.kit.safe_folder import UnsafePath
from loopty.ledgers.open_ledger import open_ledger
from loopty.ledgers.sqlite import MemoryLedger, SqliteLedger
from loopty.record.history import unreadable_text
from loopty.record.node_table import NodeRow
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialStarted
from loopty.record.workers import Workers
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
    "for _ in range(int(sys.argv[2])): recorder.record(child_events)\n"
)


def _writer(path: Path, times: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", _WRITER, path, str(times)], stdout=subprocess.PIPE)


def test_eight_processes_write_one_ledger_and_no_number_is_lost_or_given_twice(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Recorder(SqliteLedger(path), time.time).record(lambda _: run_events())
    writers = [_writer(path, 25) for _ in range(8)]
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
    for pause in (0.01, 0.03, 0.05, 0.08, 0.3):
        with _writer(path, 10**9) as writer:
            writer.stdout.readline()
            time.sleep(pause)
            os.kill(writer.pid, signal.SIGKILL)
        ledger = SqliteLedger(path)
        events = list(ledger.read())
        assert [recorded.number for recorded in events] == list(range(1, len(events) + 1))
        assert ledger.history().number == len(events)
        assert len(list(ledger.history().ids)) == len(events) - 1
        assert ledger.flaw() is None


def test_events_that_do_not_fit_the_tables_are_folded_from_the_first_one(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: run_events())
    recorder.record(child_events)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM nodes")
        db.execute("UPDATE events SET seal = NULL, row_sum = NULL WHERE number = 3")
    assert "added or removed" in SqliteLedger(path).flaw()
    assert set(SqliteLedger(path).history().ids) == {"1", "1.1"}
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


def test_tables_of_an_older_fold_are_made_again_from_the_events(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), time.time)
    recorder.record(lambda _: run_events())
    recorder.record(child_events)
    with apsw.Connection(str(path)) as db:
        db.execute('UPDATE fold SET version = 0; UPDATE nodes SET body = \'{"of": "another time"}\'')
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


SET = "UPDATE nodes SET body = json_set(body, "
EDITS = {
    "UPDATE events SET body = json_set(body, '$.summary', 'x') WHERE number = 2": "event 2 was changed",
    "UPDATE events SET at = at + 1 WHERE number = 3": "event 3 was changed",
    "DELETE FROM events WHERE number = 2": "event 3 was changed, or one before it removed",
    "DELETE FROM events WHERE number = 4": "added or removed",
    "INSERT INTO events SELECT 5, at, kind, body, digest, row_sum, seal FROM events WHERE number = 4": "event 5",
    f"{SET}'$.verdict', 'kept') WHERE id = '1.1'": "the record of node 1.1 was changed",
    "UPDATE runs SET body = json_set(body, '$.seed', 9) WHERE part = 'run'": "the record of run 1 was changed",
    "UPDATE runs SET body = '{}' WHERE part = 'NodeCount'": "the record of run 1 NodeCount was changed",
    "DELETE FROM nodes WHERE id = '1.1'": "added or removed",
    "DELETE FROM runs WHERE part = 'NodeCount'": "added or removed",
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
            before = db.execute("SELECT body FROM nodes WHERE id = ?", (node,)).fetchone()
            db.execute(f"{SET}'$.summary', 'x') WHERE id = ?", (node,))
        ledger, named = SqliteLedger(path), f"the record of node {node} was changed"
        assert (ledger.flaw(1, 2) == named) == is_seen_at_once
        assert ledger.history()[NodeId(node)].summary == "x"
        assert ledger.flaw(1, 2) == named, "it was read"
        assert ledger.flaw() == named
        with sqlite3.connect(path) as db:
            db.execute("UPDATE nodes SET body = ? WHERE id = ?", (*before, node))


@pytest.mark.parametrize("column", [name for name in NodeRow._fields if name != "body"])
def test_an_edit_of_any_column_of_a_node_is_noticed(tmp_path, column):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: [*run_events(), TrialStarted(NodeId("1"), 1, Pool.ATTEMPT, "me")])
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE nodes SET {column} = 9")
    assert SqliteLedger(path).flaw() == f"the record of node {9 if column == 'id' else 1} was changed"


def test_an_edit_of_the_facts_of_old_nodes_is_noticed_once_they_are_read(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    recorder.record(lambda _: run_events())
    for _ in range(9):
        recorder.record(child_events)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE nodes SET score = 7 WHERE id = '1.2'")
    ledger = SqliteLedger(path)
    assert ledger.flaw(1, 2) is None, "nothing of them was shown yet"
    assert len(list(ledger.history().facts(1, Pool.ATTEMPT))) == 10
    assert ledger.flaw(1, 2) == ledger.flaw() == "the record of node 1.2 was changed"


@pytest.mark.parametrize(
    ("part", "entry", "damage"),
    [
        ("run", "", "nothing"),
        ("run", "", "[]"),
        ("run", "", "[" * 100_000),
        ("Workers", "members", '["a",{}]'),
        ("NodeCount", "x", "{}"),
        ("NodeCount", "x", '["a"]'),
        ("Workers", "", "7"),
    ],
)
def test_damaged_runs_are_an_error_in_one_line(tmp_path, part, entry, damage):
    path = tmp_path / "ledger.sqlite"
    Recorder(SqliteLedger(path), lambda: 12.5).record(lambda _: run_events())
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM runs WHERE part = ? AND entry = ?", (part, entry))
        db.execute("INSERT INTO runs VALUES (99, 1, ?, ?, ?, zeroblob(16))", (part, entry, damage))
    with pytest.raises(Misuse, match=r"the record of its runs is damaged\. Put back a copy"):
        Workers.of(SqliteLedger(path).history().runs[1])


def test_a_damaged_node_is_an_error_in_one_line(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Recorder(SqliteLedger(path), lambda: 12.5).record(lambda _: run_events())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE nodes SET body = '{}' WHERE id = '1'")
    with pytest.raises(Misuse, match=r"the record of node 1 is damaged\. Put back a copy"):
        SqliteLedger(path).history()[NodeId("1")]


def test_writers_in_turn_and_tables_that_are_made_again_leave_no_flaw(tmp_path):
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
            SqliteLedger(path).close()

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
