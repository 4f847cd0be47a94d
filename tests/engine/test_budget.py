"""Tokens and money are counted when a call starts, and limits are never exceeded."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Exhausted
from loopty.domain.task import Pools
from loopty.engine import decisions
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.purse import RunPurse
from loopty.record.calls import Spend
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import run_events

LIMIT = Pools(tokens=1000, money_usd=1.0)


def reserve(recorder, tokens):
    return RunPurse(recorder, 1, LIMIT, "owner").reserve("evolver", tokens, tokens / 1000)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 400), st.floats(0.0, 1.0), st.integers(0, 7)), max_size=60))
def test_eight_spenders_that_never_exceed_their_estimate_never_pass_the_limit(calls):
    ledger = MemoryLedger()
    recorders = [Recorder(ledger, lambda: 0.0) for _ in range(8)]
    recorders[0].record(lambda _: run_events())
    in_flight = []
    for tokens, share, spender in calls:
        if len(in_flight) >= 8:
            done, cost = in_flight.pop(0)
            RunPurse(recorders[spender], 1, LIMIT, "anyone").settle(done, cost, cost / 1000)
        with contextlib.suppress(Exhausted):
            in_flight.append((reserve(recorders[spender], tokens), int(tokens * share)))
        run = recorders[spender].refresh().runs[1]
        assert Spend.of(run).total_tokens <= LIMIT.tokens
        assert Spend.of(run).total_money_usd <= LIMIT.money_usd + 1e-9


def test_a_call_in_flight_when_its_process_dies_is_charged_once():
    ledger = MemoryLedger()
    recorder = Recorder(ledger, lambda: 0.0)
    recorder.record(lambda _: run_events())
    call = reserve(recorder, 300)
    for _ in range(3):
        recorder.record(lambda history: decisions.close_abandoned(history, lambda _: False))
    run = recorder.history.runs[1]
    assert Spend.of(run).reservations == {}
    assert Spend.of(run).total_tokens == 300
    assert Spend.of(run).tokens == {"evolver": 300}
    RunPurse(recorder, 1, LIMIT, "owner").settle(call, 10, 0.01)
    assert Spend.of(recorder.history.runs[1]).tokens == {"evolver": 300}, "it was charged already"
