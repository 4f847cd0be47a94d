"""Events that may wait are recorded with the next ones, in their order, and none is lost."""

import asyncio

import pytest

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Ending, Outcome
from loopty.kit import codec
from loopty.ledgers.sqlite import MemoryLedger, SqliteLedger
from loopty.record.calls import CallReserved, CallSettled, Spend
from loopty.record.node_table import NodeTable
from loopty.record.recorder import Recorder
from loopty.record.run_rows import RunRows
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded
from loopty.testing.ledger_suite import child_events, run_events


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    return MemoryLedger() if request.param == "memory" else SqliteLedger(tmp_path / "ledger.sqlite")


@pytest.fixture
def recorder(ledger):
    recorder = Recorder(ledger, lambda: 1.0)
    recorder.record(lambda _: [RunStarted(1, "criteria", Objective(), 0, "first"), *map(reserved, "abc")])
    return recorder


def reserved(call):
    return CallReserved(1, call, "evolver", 10, 0.0, "me")


def settled(call):
    return CallSettled(1, call, 1, 0.0)


def calls(ledger):
    """The calls that were settled or reserved after the first three, as the ledger has them."""
    return [f"{type(item.event).__name__} {item.event.call}" for item in ledger.read(4)]


def test_outside_a_session_an_event_is_recorded_now(ledger, recorder):
    recorder.record_soon(settled("a"))
    assert calls(ledger) == ["CallSettled a"]


def test_events_that_wait_come_before_the_next_ones_and_decisions_know_them(ledger, recorder):
    heard = []
    recorder.listeners.append(lambda item: heard.append(item.event.call))

    def decide(history):
        assert Spend.of(history.runs[1]).total_tokens == 12
        return [reserved("d")]

    async def session():
        async with recorder.gathering():
            recorder.record_soon(settled("a"))
            recorder.record_soon(settled("b"))
            assert calls(ledger) == []
            recorder.record(decide)
            assert calls(ledger) == ["CallSettled a", "CallSettled b", "CallReserved d"]
            recorder.record_soon(settled("c"))

    asyncio.run(session())
    assert calls(ledger)[3:] == ["CallSettled c"], "the end of the session records what waits"
    assert heard == ["a", "b", "d", "c"]
    assert ledger.history().number == recorder.history.number == 8


def test_an_event_waits_for_a_moment_only(ledger, recorder):
    async def session():
        async with recorder.gathering():
            recorder.record_soon(settled("a"))
            await asyncio.sleep(0.1)
            assert calls(ledger) == ["CallSettled a"]
            recorder.record_soon(settled("b"))
            await asyncio.sleep(0.1)
            assert calls(ledger) == ["CallSettled a", "CallSettled b"]

    asyncio.run(session())


def test_a_decision_that_is_refused_loses_nothing_that_waits(ledger, recorder):
    def refuse(_history):
        raise Exhausted("nothing is left")

    async def session():
        async with recorder.gathering():
            recorder.record_soon(settled("a"))
            history = recorder.history
            with pytest.raises(Exhausted):
                recorder.record(refuse)
            assert calls(ledger) == ["CallSettled a"]
            assert recorder.history is history, "whoever looks at it sees what comes"
            recorder.record(lambda _: [settled("b")])

    asyncio.run(session())
    assert calls(ledger) == ["CallSettled a", "CallSettled b"]


def test_a_ledger_that_cannot_be_written_is_told_to_the_next_who_records(ledger, recorder, monkeypatch):
    def fail():
        raise Misuse("the disk is full")

    async def session():
        async with recorder.gathering():
            recorder.record_soon(settled("a"))
            with monkeypatch.context() as full:
                full.setattr(ledger, "write_lock", fail)
                await asyncio.sleep(0.1)
                with pytest.raises(Misuse, match="the disk is full"):
                    recorder.record(lambda _: [settled("b")])
            recorder.record(lambda _: [settled("b")])

    asyncio.run(session())
    assert calls(ledger) == ["CallSettled a", "CallSettled b"]


def test_each_session_of_a_recorder_has_its_own_moment(ledger, recorder):
    async def session(call, seconds):
        async with recorder.gathering():
            recorder.record_soon(settled(call))
            await asyncio.sleep(seconds)
            assert bool(calls(ledger)[-1:] == [f"CallSettled {call}"]) == bool(seconds)

    asyncio.run(session("a", 0))
    asyncio.run(session("b", 0.1))


def test_what_waits_fits_behind_events_of_another_process(tmp_path):
    path = tmp_path / "ledger.sqlite"
    first, second = (Recorder(SqliteLedger(path), lambda: 1.0) for _ in range(2))
    first.record(lambda _: [RunStarted(1, "criteria", Objective(), 0, "first"), *map(reserved, "abc")])

    async def session():
        async with first.gathering():
            first.record_soon(settled("a"))
            second.record(lambda _: [settled("b")])
            first.record(lambda _: [settled("c")])

    asyncio.run(session())
    assert calls(SqliteLedger(path)) == ["CallSettled b", "CallSettled a", "CallSettled c"]
    assert SqliteLedger(path).flaw() is None


@pytest.mark.parametrize("broken", [(NodeTable, "count"), (RunRows, "read")])
def test_a_reader_that_was_broken_off_halfway_reads_again_and_gives_no_id_twice(broken, tmp_path, monkeypatch):
    first, second = (Recorder(SqliteLedger(tmp_path / "ledger.sqlite"), lambda: 1.0) for _ in range(2))
    first.record(lambda _: run_events())
    assert second.record(child_events)[0].event.node == "1.1"
    assert first.record(child_events)[0].event.node == "1.2"

    def break_off(_pages):
        raise ConnectionError("the server was killed")

    with monkeypatch.context() as patch:
        patch.setattr(*broken, break_off)
        with pytest.raises(ConnectionError):
            second.record(child_events)
    assert second.record(child_events)[0].event.node == "1.3"
    assert second.history.number == 5


BAD = [
    TrialEnded(NodeId("1"), 1, Outcome(Ending.FINISHED, {"score": True})),
    TrialEnded(NodeId("1"), 1, Outcome(Ending.FINISHED, {"score": "9"})),
    TrialEnded(NodeId("1"), 1, Outcome(Ending.FAILED, reason="x" * 3_000_000)),
    TrialEnded(NodeId("1"), 1, Outcome(Ending.FAILED, seconds=-1e300)),
    CallSettled(1, "a\ud800", 1, 0.0),
]


@pytest.mark.parametrize("bad", BAD)
def test_an_event_that_could_not_be_read_back_is_refused_and_nothing_changes(ledger, recorder, bad):
    before = codec.plain(recorder.history.runs[1])

    with pytest.raises(Misuse, match="was not recorded: "):
        recorder.record(lambda _: [bad])
    with pytest.raises(Misuse, match="was not recorded: "):
        recorder.record(lambda _: [settled("a"), bad])

    assert calls(ledger) == []
    assert recorder.refresh().number == 4
    assert codec.plain(recorder.history.runs[1]) == before
    assert ledger.flaw() is None


def test_such_an_event_does_not_wait_and_stop_others(ledger, recorder):
    async def session():
        async with recorder.gathering():
            recorder.record_soon(settled("a"))
            with pytest.raises(Misuse, match="was not recorded: tokens is "):
                recorder.record_soon(CallSettled(1, "b", True, 0.0))
            recorder.record_soon(settled("c"))

    asyncio.run(session())
    assert calls(ledger) == ["CallSettled a", "CallSettled c"]
