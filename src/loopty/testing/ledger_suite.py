"""Tests that every ledger must pass: subclass LedgerConformance and give it a `ledger` fixture."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.access import ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Pool
from loopty.kit import codec
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.fold import Event, Recorded
from loopty.record.history import History
from loopty.record.ledger import Ledger
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted, SessionEnded
from loopty.record.workers import TrialLeased, WorkerJoined, WorkerLeft, Workers

_COMMIT, _TREE = ObjectName("c0" * 20), ObjectName("e0" * 20)


def run_events(number: int = 1) -> list[Event]:
    """List the events of a run and its baseline."""
    root = NodeId(str(number))
    return [
        RunStarted(number, "criteria", Objective(), 0, "the first run"),
        NodeAdded(
            node=root,
            pool=Pool.ATTEMPT,
            operator="baseline",
            summary="the code as it is",
            commit=_COMMIT,
            tree=_TREE,
            params={"x": 0.5},
        ),
    ]


def child_events(history: History) -> list[Event]:
    """List the events of one more child of the baseline."""
    node = NodeId("1").child(history[NodeId("1")].children + 1)
    return [
        NodeAdded(
            node=node,
            pool=Pool.ATTEMPT,
            operator="hand",
            summary="a change",
            commit=_COMMIT,
            tree=_TREE,
            params={"x": 0.1 + 0.2},
        )
    ]


def _joined(number: int) -> Event:
    return WorkerJoined(1, f"worker-{number}", "host", "f0", "none")


class LedgerConformance:
    """The contract of the Ledger protocol, as tests."""

    def test_events_are_read_back_unchanged_and_in_order(self, ledger: Ledger) -> None:
        recorder = Recorder(ledger, lambda: 12.5)
        written = [*recorder.record(lambda _: run_events()), *recorder.record(child_events)]
        assert list(ledger.read()) == written
        assert [recorded.number for recorded in written] == [1, 2, 3]

    def test_reading_starts_after_a_given_event(self, ledger: Ledger) -> None:
        recorder = Recorder(ledger, lambda: 0.0)
        recorder.record(lambda _: run_events())
        recorder.record(child_events)
        assert [recorded.number for recorded in ledger.read(after=2)] == [3]

    def test_the_saved_fold_equals_the_fold_of_all_events(self, ledger: Ledger) -> None:
        recorder = Recorder(ledger, lambda: 1.0)
        recorder.record(lambda _: run_events())
        for _ in range(3):
            recorder.record(child_events)
        assert _comparable_form(ledger.history()) == _comparable_form(_fold(list(ledger.read())))
        assert _comparable_form(ledger.history()) == _comparable_form(recorder.history)

    def test_a_write_that_raises_leaves_no_trace(self, ledger: Ledger) -> None:
        recorder = Recorder(ledger, lambda: 0.0)
        recorder.record(lambda _: run_events())
        before, history = list(ledger.read()), ledger.history()
        event = Recorded(3, 0.0, child_events(history)[0])
        history.apply(event)
        try:
            with ledger.write_lock() as lock:
                lock.write([event], history)
                raise KeyError("something went wrong")
        except KeyError:
            pass
        assert list(ledger.read()) == before
        assert NodeId("1.1") not in set(ledger.history().ids)

    def test_two_recorders_see_each_other(self, ledger: Ledger) -> None:
        one, two = Recorder(ledger, lambda: 0.0), Recorder(ledger, lambda: 0.0)
        one.record(lambda _: run_events())
        two.record(child_events)
        one.record(child_events)
        assert set(one.history.ids) == {"1", "1.1", "1.2"}
        assert set(two.refresh().ids) == set(one.history.ids)

    def test_many_workers_are_saved_as_two_writers_leave_them(self, ledger: Ledger) -> None:
        one, two = Recorder(ledger, lambda: 0.0), Recorder(ledger, lambda: 0.0)
        one.record(lambda _: run_events())
        one.record(lambda _: [_joined(number) for number in range(40)])
        for number in (3, 17, 39):
            two.record(lambda _, number=number: [TrialLeased(NodeId("1"), 1, f"worker-{number}", str(number))])  # type: ignore[misc]
            one.record(lambda _, number=number: [WorkerLeft(1, f"worker-{number + 1}", "gone")])  # type: ignore[misc]
        two.record(lambda _: [_joined(4), SessionEnded(1, "")])
        one.record(lambda _: [_joined(number) for number in range(30, 0, -1)])
        expected = _comparable_form(_fold(list(ledger.read())))
        for history in (ledger.history(), one.history, two.refresh()):
            assert _comparable_form(history) == expected
            assert list(Workers.of(history.runs[1]).members) == [f"worker-{number}" for number in range(30, 0, -1)]
        assert ledger.flaw() is None

    def test_a_decision_that_raises_records_nothing_and_the_recorder_goes_on(self, ledger: Ledger) -> None:
        recorder = Recorder(ledger, lambda: 0.0)
        recorder.record(lambda _: run_events())

        def refuse(_: History) -> Sequence[Event]:
            raise KeyError("no")

        try:
            recorder.record(refuse)
        except KeyError:
            recorder.record(child_events)
        assert [recorded.number for recorded in ledger.read()] == [1, 2, 3]


def _fold(events: Sequence[Recorded]) -> History:
    history = MemoryLedger().history()
    for recorded in events:
        history.apply(recorded)
    return history


def _comparable_form(history: History) -> object:
    """Return the whole content of a history, in a form that can be compared."""
    runs = {number: codec.plain(run) for number, run in history.runs.items()}
    return history.number, runs, {node: codec.plain(history[node]) for node in history.ids}
