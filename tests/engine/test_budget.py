"""Tokens and money are counted when spending starts, and never overshot."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Exhausted
from loopty.domain.task import Pools
from loopty.engine import budget, decisions
from loopty.ledgers.memory import MemoryLedger
from loopty.models.purse import Purse
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import run_events

LIMIT = Pools(tokens=1000, money_usd=1.0)


def reserve(scribe, tokens):
    return Purse(scribe, 1, LIMIT, "owner").reserve("evolver", tokens, tokens / 1000)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 400), st.floats(0.0, 1.0), st.integers(0, 7)), max_size=60))
def test_eight_spenders_that_never_exceed_their_estimate_never_pass_the_limit(calls):
    ledger = MemoryLedger()
    scribes = [Recorder(ledger, lambda: 0.0) for _ in range(8)]
    scribes[0].record(lambda _: run_events())
    flying = []
    for tokens, share, spender in calls:
        if len(flying) >= 8:
            done, cost = flying.pop(0)
            Purse(scribes[spender], 1, LIMIT, "anyone").settle(done, cost, cost / 1000)
        with contextlib.suppress(Exhausted):
            flying.append((reserve(scribes[spender], tokens), int(tokens * share)))
        run = scribes[spender].refresh().runs[1]
        assert budget.tokens(run) <= LIMIT.tokens
        assert budget.money_usd(run) <= LIMIT.money_usd + 1e-9


def test_a_call_in_flight_when_its_process_dies_is_charged_once():
    ledger = MemoryLedger()
    scribe = Recorder(ledger, lambda: 0.0)
    scribe.record(lambda _: run_events())
    call = reserve(scribe, 300)
    for _ in range(3):
        scribe.record(lambda history: decisions.close_abandoned(history, lambda _: False))
    run = scribe.history.runs[1]
    assert run.holds == {}
    assert budget.tokens(run) == 300
    assert run.tokens == {"evolver": 300}
    Purse(scribe, 1, LIMIT, "owner").settle(call, 10, 0.01)
    assert scribe.history.runs[1].tokens == {"evolver": 300}, "it was charged already"
