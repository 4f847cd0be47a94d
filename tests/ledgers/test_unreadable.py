"""An event that nobody can read is named, and hides no other; nothing is recorded after it."""

import contextlib
import json
import sqlite3

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.history import UnreadableEvent, unreadable_text
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.testing.ledger_suite import child_events, run_events

BAD = 5
"""The number of the event that every test makes unreadable: the end of the trial of 1.1."""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.sqlite"
    recorder = Recorder(SqliteLedger(path), lambda: 12.5)
    node = NodeId("1.1")
    recorder.record(lambda _: run_events())
    recorder.record(child_events)
    recorder.record(lambda _: [TrialStarted(node, 1, Pool.ATTEMPT, "me")])
    recorder.record(lambda _: [TrialEnded(node, 1, Outcome(Ending.FINISHED, {"score": 1.0}))])
    recorder.record(child_events)
    return path


def edit(path, statement, *values, folded=False):
    """Change the ledger as an older loopty, whose fold was another one, or as a person who leaves the pages."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)
        if not folded:
            db.execute("UPDATE fold SET version = version - 1")


SCORES = [True, "9", None, [1], {}, 10**400]
BODIES = [
    *({"node": "1.1", "number": 1, "outcome": {"ending": "finished", "metrics": {"score": s}}} for s in SCORES),
    {"node": "1.1", "number": 1, "outcome": {"ending": "failed", "seconds": -1e300}},
    {"node": "1.1", "number": 1, "outcome": {"ending": "splendid"}},
    {"node": "../1", "number": 1, "outcome": {"ending": "failed"}},
    {"node": "1.99", "number": 1, "outcome": {"ending": "failed"}},
    {"node": "9.1", "number": 1, "outcome": {"ending": "failed"}},
    {},
    [],
    7,
    None,
]


@pytest.mark.parametrize("body", [*map(json.dumps, BODIES), "", "{", "[" * 100_000, b"\xff", 7])
def test_one_bad_event_is_named_and_hides_no_other(path, body):
    edit(path, "UPDATE events SET body = ? WHERE number = ?", body, BAD)

    history = SqliteLedger(path).history()

    assert set(history.ids) == {"1", "1.1", "1.2"}
    assert unreadable_text(history).startswith(f"event {BAD} cannot be read (")
    assert history[NodeId("1.2")].summary == "a change"
    assert unreadable_text(SqliteLedger(path).history()) == unreadable_text(history), "the saved pages know it"


def test_the_fault_is_said_in_words(path):
    edit(path, "UPDATE events SET body = ? WHERE number = ?", json.dumps(BODIES[0]), BAD)
    assert unreadable_text(SqliteLedger(path).history()) == (
        f"event {BAD} cannot be read (outcome.metrics.score is a truth value, not a number)"
    )


@pytest.mark.parametrize(("column", "value"), [("kind", "node-painted"), ("kind", b"\xff"), ("at", "soon")])
def test_a_row_with_any_column_changed_is_named(path, column, value):
    edit(path, f"UPDATE events SET {column} = ? WHERE number = ?", value, BAD)
    history = SqliteLedger(path).history()
    assert f"event {BAD} cannot be read" in unreadable_text(history)
    assert len(list(history.ids)) == 3
    assert [type(item.event) for item in SqliteLedger(path).read()].count(UnreadableEvent) == 1


def test_many_bad_events_are_counted_and_the_first_ones_named(path):
    recorder = Recorder(SqliteLedger(path), lambda: 13.0)
    for _ in range(30):
        recorder.record(child_events)
    edit(path, "UPDATE events SET body = '{}' WHERE number > ?", BAD)
    text = unreadable_text(SqliteLedger(path).history())
    assert text.count("cannot be read") == 20
    assert text.endswith("and 11 more")


def test_nothing_is_recorded_after_such_an_event(path):
    edit(path, "UPDATE events SET body = ? WHERE number = ?", json.dumps(BODIES[0]), BAD)
    recorder = Recorder(SqliteLedger(path), lambda: 13.0)
    with pytest.raises(Misuse, match=rf"event {BAD} cannot be read .*: nothing is added to this ledger"):
        recorder.record(child_events)
    assert len(list(SqliteLedger(path).read())) == 6


def test_a_process_that_runs_already_records_nothing_after_such_an_event(path):
    recorder = Recorder(SqliteLedger(path), lambda: 13.0)
    recorder.saves_rarely = True
    recorder.record(child_events)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "INSERT INTO events (number, at, kind, body, digest) "
            "VALUES (8, 1.0, 'trial-ended', '{}', zeroblob(16))"
        )
    with pytest.raises(Misuse, match="event 8 cannot be read"):
        recorder.record(child_events)


def test_the_digests_show_an_edit_that_can_be_read(path):
    good = {"node": "1.1", "number": 1, "outcome": {"ending": "finished", "metrics": {"score": 2.0}}}
    edit(path, "UPDATE events SET body = ? WHERE number = ?", json.dumps(good), BAD, folded=True)
    ledger = SqliteLedger(path)
    assert unreadable_text(ledger.history()) is None
    assert ledger.flaw() == f"event {BAD} was changed, or one before it removed"


def test_before_the_first_run_nothing_can_be_shown(path):
    edit(path, "UPDATE events SET body = '{}' WHERE number = 1")
    with pytest.raises(Misuse, match="the record of event 1 is damaged"):
        SqliteLedger(path).history()
