"""A ledger of the previous layout is migrated when it is opened, and keeps its content."""

import contextlib
import json
import sqlite3
from pathlib import Path

import apsw
import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.kit import codec
from loopty.ledgers import sqlite_database
from loopty.ledgers.digests import digest_sum, page_digest, seal_digest
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.acknowledgements import DirectiveSeen
from loopty.record.agent_accounts import AgentBenched, AgentPartEnded, AgentSearchStalled
from loopty.record.audit_anchors import AuditConcluded
from loopty.record.budgets import BudgetChanged
from loopty.record.calls import Spend
from loopty.record.cohorts import CohortOpened, Cohorts
from loopty.record.directives import Directive
from loopty.record.families import all_families
from loopty.record.frozen_pools import PoolFrozen
from loopty.record.history import FOLD_VERSION
from loopty.record.node_gates import NodeGates
from loopty.record.nodes import DraftDropped, NodeCount
from loopty.record.notes import NoteAdded
from loopty.record.proposals import Proposals
from loopty.record.recorder import Recorder
from loopty.record.removed_files import FilesRemoved
from loopty.record.role_shares import RoleSharesChanged
from loopty.record.rungs import LadderState
from loopty.record.search_learning import SearchMoved
from loopty.record.sessions import RunPaused, RunResumed, Session, StopRequested
from loopty.record.stored_files import FilesStored
from loopty.record.tickets import TicketEnded, TicketOpened
from loopty.record.trials import TrialCounts, Trials
from loopty.record.tunings import NodeTuned, TunePointChosen, TuningStarted
from loopty.record.verdicts import Incumbents, NodeReopened, NodeRestored, VerdictWithdrawn
from loopty.record.workers import ClusterSeen, LeaseLost, TrialLeased, WorkerDrifted, WorkerJoined, WorkerLeft
from loopty.testing.ledger_suite import run_events

from ..record.test_fold import fold
from ..record.test_lazy_nodes import DraftingRun, answers

OLD = Path(__file__).with_name("layout_1.sql").read_text()
NEWER = {
    *(DraftDropped, FilesRemoved, NodeReopened, VerdictWithdrawn),
    *(BudgetChanged, NodeRestored, RunPaused, RunResumed, StopRequested),
    *(DirectiveSeen, NoteAdded, TicketOpened, TicketEnded),
    *(PoolFrozen, SearchMoved),
    *(NodeTuned, TunePointChosen, TuningStarted),
    *(ClusterSeen, CohortOpened, WorkerDrifted, WorkerJoined, WorkerLeft, TrialLeased, LeaseLost),
    *(AgentBenched, AgentPartEnded, AgentSearchStalled, AuditConcluded, RoleSharesChanged),
    FilesStored,
}
"""Events that the previous layout did not have."""
RENAMED = {"asked_after": "known_event", "duel": "pairing", "elsewhere": "other_fingerprints"}


@pytest.fixture
def old_ledger(tmp_path) -> Path:
    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(OLD)
    return path


def old_pages(path: Path) -> dict[str, dict]:
    with sqlite3.connect(path) as db:
        return {key: json.loads(body) for key, body in db.execute("SELECT key, body FROM pages")}


def test_every_kind_of_event_survives(old_ledger):
    events = [recorded.event for recorded in SqliteLedger(old_ledger).read()]
    known = {event for family in all_families().values() for event in family.events} - NEWER
    assert {type(event) for event in events} == known
    with sqlite3.connect(old_ledger) as db:
        assert len(events) == db.execute("SELECT count(*) FROM events").fetchone()[0]


def test_every_node_is_unchanged_and_gets_its_handle(old_ledger):
    before = old_pages(old_ledger)
    history = SqliteLedger(old_ledger).history()
    nodes = {key: page for key, page in before.items() if not key.startswith("run ")}
    assert list(history.ids) == list(nodes)
    for handle, (key, page) in enumerate(nodes.items(), start=1):
        if pairing := page.get("duel"):
            pairing["incumbent"] = pairing.pop("rival")
        expected = {RENAMED.get(name, name): value for name, value in page.items()}
        assert json.loads(history.page(NodeId(key))) == {**expected, "handle": handle}
    assert any("known_event" in json.loads(history.page(NodeId(key))) for key in nodes)


def test_the_run_is_unchanged(old_ledger):
    before = old_pages(old_ledger)["run 1"]
    run = SqliteLedger(old_ledger).history().runs[1]
    assert run.criteria_parts == before["stated"]
    assert NodeCount.of(run).nodes == before["nodes"]
    assert codec.plain(NodeGates.of(run).by_node) == before["gates"]
    assert Directive.of(run).text == before.get("directive", "")
    spend = codec.plain(Spend.of(run))
    reservations = {
        call: {name.replace("worst_", "max_"): value for name, value in hold.items()}
        for call, hold in before.get("holds", {}).items()
    }
    found = spend.get("reservations", {})
    assert all(call.pop("since") > 0 for call in found.values()), "the time is that of the event"
    for call in (*found.values(), *spend.get("unread", {}).values()):
        for name in ("model", "tokens", "money_usd") if "taken" in call or "size" in call else ("model",):
            call.pop(name, None)
    assert found == reservations
    assert (spend.get("tokens"), spend.get("unread")) == (before.get("tokens"), before.get("unread"))
    assert Cohorts.of(run).fingerprint == before["fingerprint"]
    assert codec.plain(Trials.of(run).running) == before.get("flights", {})
    session = Session.of(run)
    assert (session.seconds, session.ended) == (before["seconds"], before["ended"])
    assert (session.stalls, session.stalled_seconds) == (before["stalls"], before["stalled_seconds"])
    for pool, account in before["accounts"].items():
        of_pool = run, Pool(pool)
        assert TrialCounts.of(*of_pool).started == account.get("started", 0)
        assert TrialCounts.of(*of_pool).endings == account.get("endings", {})
        assert Proposals.of(*of_pool).refused == account.get("refused", 0)
        assert Proposals.of(*of_pool).fruitless_calls == account.get("vain_calls", 0)
        assert Proposals.of(*of_pool).answers == account.get("answers", {})
        assert Incumbents.of(*of_pool).best == account.get("best")
        assert Incumbents.of(*of_pool).by_fingerprint == account.get("champions", {})
        assert LadderState.of(*of_pool).rung == account.get("rung", 0)
        assert LadderState.of(*of_pool).falls == account.get("rung_falls", {})


def test_a_migrated_ledger_is_migrated_once(old_ledger):
    first = SqliteLedger(old_ledger)
    events = list(first.read())
    first.close()
    assert list(SqliteLedger(old_ledger).read()) == events


def test_a_newer_layout_is_refused_with_a_remedy(old_ledger):
    with sqlite3.connect(old_ledger) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(Misuse, match=r"newer loopty.*update loopty"):
        SqliteLedger(old_ledger)


def test_a_migrated_ledger_has_digests(old_ledger):
    ledger = SqliteLedger(old_ledger)
    ledger.history()
    assert ledger.flaw() is None


PLACES = ("handle", "run", "pool", "waits", "identity", "facts")
INDEXES = ("nodes_by_handle", "nodes_by_pool", "nodes_by_identity", "waiting_nodes", "call_events")


def give_layout_without_places(db) -> None:
    """Turn a ledger into one whose pages do not have what nodes are found by."""
    for index in INDEXES:
        db.execute(f"DROP INDEX {index}")
    for column in PLACES:
        db.execute(f"ALTER TABLE pages DROP COLUMN {column}")
    seal_pages(db, db.execute("SELECT key, body FROM pages"))
    db.execute("UPDATE fold SET version = 14")
    db.execute("PRAGMA user_version = 3")


def give_layout_with_facts_of_nodes(db) -> None:
    """Turn a ledger into one whose pages of nodes have their facts beside them."""
    db.execute("UPDATE pages SET facts = '[1,null,null,\"\",null,null,0,null,true]' WHERE handle IS NOT NULL")
    places = "coalesce(char(10) || handle || ' ' || run || ' ' || pool || ' ' || waits || ' ' || "
    places += "coalesce(identity, 'None') || ' ' || facts, '')"
    seal_pages(db, db.execute(f"SELECT key, body || {places} FROM pages"))
    db.execute("UPDATE fold SET version = 15")


def give_layout_with_larger_blocks(db) -> None:
    """Turn a ledger into one whose blocks of facts are larger: what they say does not matter."""
    db.execute("INSERT INTO pages (key, body) VALUES ('facts 0000000000', '[[],[],{},[],[]]')")
    places = "coalesce(char(10) || handle || ' ' || run || ' ' || pool || ' ' || waits || ' ' || "
    places += "coalesce(identity, 'None') || ' None', '')"
    seal_pages(db, db.execute(f"SELECT key, body || {places} FROM pages"))
    db.execute("UPDATE fold SET version = 16")


def seal_pages(db, rows) -> None:
    digests = {key: page_digest(key, body) for key, body in rows}
    db.executemany("UPDATE pages SET digest = ? WHERE key = ?", [(each, key) for key, each in digests.items()])
    total = digest_sum(digests.values())
    ((number, last),) = db.execute("SELECT number, digest FROM events ORDER BY number DESC LIMIT 1")
    seal = (total, seal_digest(last, total), number)
    db.execute("UPDATE events SET page_sum = ?, seal = ? WHERE number = ?", seal)


@pytest.fixture(
    params=[give_layout_without_places, give_layout_with_facts_of_nodes, give_layout_with_larger_blocks]
)
def previous_ledger(request, tmp_path) -> Path:
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path)
    run = DraftingRun(ledger, 5)
    for _ in range(120):
        run.step()
    ledger.close()
    # Closed at once: two SQLite libraries of one process must not have the file open together.
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM pages WHERE key LIKE 'facts %'")
        request.param(db)
    return path


def test_nodes_of_the_previous_layout_are_found_as_before(previous_ledger):
    ledger = SqliteLedger(previous_ledger)
    assert answers(ledger.history()) == answers(fold(ledger))
    assert ledger.flaw() is None
    assert SqliteLedger(previous_ledger).history().count == ledger.history().count


def test_an_edit_in_the_previous_layout_does_not_survive_the_migration(previous_ledger):
    with contextlib.closing(sqlite3.connect(previous_ledger)) as db, db:
        db.execute("UPDATE pages SET body = json_set(body, '$.summary', 'forged') WHERE key = '1'")
    ledger = SqliteLedger(previous_ledger)
    assert ledger.history()[NodeId("1")].summary != "forged"
    assert answers(ledger.history()) == answers(fold(ledger))


def test_one_process_rebuilds_the_pages_and_the_others_wait_for_it(old_ledger, monkeypatch):
    migrated = SqliteLedger(old_ledger)
    migrated.history()
    migrated.close()
    monkeypatch.setattr(sqlite_database, "_MS_OF_A_SHORT_WAIT", 1)
    other = apsw.Connection(str(old_ledger))  # not sqlite3: two copies of SQLite in a process share their locks
    other.execute("UPDATE fold SET version = 0")
    waiting = SqliteLedger(old_ledger)
    other.execute("BEGIN IMMEDIATE")
    heard = []

    def end_the_other(folded, count):
        heard.append((folded, count))
        if len(heard) == 2:
            other.execute("UPDATE fold SET version = ?", (FOLD_VERSION,))
            other.execute("COMMIT")

    monkeypatch.setattr(waiting._pages, "clear", lambda: pytest.fail("the pages were rebuilt twice"))
    assert waiting.history(end_the_other).runs
    assert heard == [(0, heard[0][1])] * 2
    other.close()
    waiting.close()


def test_workers_that_were_saved_in_the_page_of_the_run_get_pages_of_their_own(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path)
    recorder = Recorder(ledger, lambda: 1.0)
    recorder.record(lambda _: run_events())
    recorder.record(lambda _: [WorkerJoined(1, f"w{number}", "host", "f0", "none") for number in range(40)])
    whole = codec.text(recorder.history.runs[1])
    ledger.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM pages WHERE key LIKE 'run 1 %'")
        db.execute("UPDATE pages SET body = ? WHERE key = 'run 1'", (whole,))
        db.execute("UPDATE fold SET version = 22")
    again = SqliteLedger(path)
    assert codec.plain(again.history().runs[1]) == json.loads(whole)
    assert again.flaw() is None
    assert [key for key in old_pages(path) if key.startswith("run ")] == [
        "run 1",
        *(f"run 1 Workers.members {block}" for block in range(5)),
    ]


def test_an_entry_that_was_changed_by_hand_is_named(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path)
    recorder = Recorder(ledger, lambda: 1.0)
    recorder.record(lambda _: run_events())
    recorder.record(lambda _: [WorkerJoined(1, f"w{number}", "host", "f0", "none") for number in range(40)])
    ledger.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE pages SET body = replace(body, 'host', 'hast') WHERE key = 'run 1 Workers.members 3'")
    again = SqliteLedger(path)
    again.history()
    assert again.flaw() == "the record of run 1 Workers.members 3 was changed"
    assert again.flaw(1, 1) == "the record of run 1 Workers.members 3 was changed"
