"""A ledger in SQLite: its layout is checked, and tables of an older fold are made again."""

import contextlib
import sqlite3
from pathlib import Path

import apsw
import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.ledgers import sqlite
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.history import FOLD_VERSION
from loopty.record.recorder import Recorder
from loopty.record.workers import WorkerJoined
from loopty.testing.ledger_suite import run_events

from ..record.test_fold import fold
from ..record.test_lazy_nodes import DraftingRun, answers


@pytest.fixture
def ledger_file(tmp_path) -> Path:
    """A closed ledger with a run. Two SQLite libraries of one process must not have a file open together."""
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path)
    run = DraftingRun(ledger, 5)
    for _ in range(120):
        run.step()
    ledger.close()
    return path


@pytest.mark.parametrize(
    ("version", "message"), [(99, "a newer loopty.*update loopty"), (1, "an older loopty.*move it away")]
)
def test_the_layout_of_another_version_is_refused_with_a_remedy(ledger_file, version, message):
    with contextlib.closing(sqlite3.connect(ledger_file)) as db, db:
        db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(Misuse, match=message):
        SqliteLedger(ledger_file)


def test_tables_of_an_older_fold_are_made_again_from_the_events(ledger_file):
    with contextlib.closing(sqlite3.connect(ledger_file)) as db, db:
        db.execute("UPDATE nodes SET body = json_set(body, '$.summary', 'forged') WHERE id = '1'")
        db.execute("UPDATE fold SET version = 1")
    ledger = SqliteLedger(ledger_file)
    assert ledger.history()[NodeId("1")].summary != "forged"
    assert answers(ledger.history()) == answers(fold(ledger))
    assert ledger.flaw() is None


def test_one_process_makes_the_tables_again_and_the_others_wait_for_it(ledger_file, monkeypatch):
    monkeypatch.setattr(sqlite, "_MS_OF_A_SHORT_WAIT", 1)
    other = apsw.Connection(str(ledger_file))  # not sqlite3: two copies of SQLite in a process share their locks
    other.execute("UPDATE fold SET version = 0")
    waiting = SqliteLedger(ledger_file)
    other.execute("BEGIN IMMEDIATE")
    heard = []

    def made_once(make):
        histories = iter([make()])  # the one that is returned: another would be that of a second fold
        return lambda: next(histories)

    def end_the_other(folded, count):
        heard.append((folded, count))
        if len(heard) == 2:
            other.execute("UPDATE fold SET version = ?", (FOLD_VERSION,))
            other.execute("COMMIT")

    monkeypatch.setattr(waiting, "_empty_history", made_once(waiting._empty_history))
    assert waiting.history(end_the_other).runs
    assert heard == [(0, heard[0][1])] * 2
    other.close()
    waiting.close()


def test_an_entry_that_was_changed_by_hand_is_named(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path)
    recorder = Recorder(ledger, lambda: 1.0)
    recorder.record(lambda _: run_events())
    recorder.record(lambda _: [WorkerJoined(1, f"w{number}", "host", "f0", "none") for number in range(40)])
    ledger.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE runs SET body = replace(body, 'host', 'hast') WHERE body LIKE '%w3\"%'")
    again = SqliteLedger(path)
    again.history()
    assert again.flaw() == "the record of run 1 Workers.members was changed"
    assert again.flaw(1, 1) == "the record of run 1 Workers.members was changed"
