"""Caps hold at any width, whatever calls really cost and however they end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Exhausted
from loopty.domain.model import (
    Message,
    ModelFault,
    ModelSpec,
    Outage,
    Prompt,
    Reply,
    Role,
    RoleBudget,
    Roles,
    Speaker,
    Usage,
)
from loopty.domain.task import Pools
from loopty.engine import decisions
from loopty.executors.process_locks import ProcessLocks
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.sqlite import SqliteLedger
from loopty.models.meter import RequestSize, Subject
from loopty.models.trial_access import AllowanceExceeded
from loopty.record.calls import CallReserved, CallSettled, Spend
from loopty.record.recorder import Recorder

from .spending import PaidRun

WIDTH = 8
POOLS = Pools(tokens=12_000, money_usd=0.03)
ROLES = Roles(
    evolver=RoleBudget(tokens=8_000, money_usd=0.025), verifier=RoleBudget(tokens=6_000, money_usd=0.012)
)
SHARES = st.one_of(st.just(1.0), st.floats(0.0, 1.0))
COSTLIEST = {
    "role": Role.EVOLVER,
    "letters": 4000,
    "output": 100,
    "input_share": 1.0,
    "output_share": 1.0,
    "cached_share": 0.0,
    "turns": 5,
    "end": "reply",
}
"""Costs far more than estimated."""
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from([Role.EVOLVER, Role.VERIFIER]),
            "letters": st.one_of(st.just(4000), st.integers(0, 4000)),
            "output": st.one_of(st.integers(1, 100), st.integers(1, 2500)),
            "input_share": SHARES,
            "output_share": SHARES,
            "cached_share": SHARES,
            "turns": st.integers(0, 12),
            "end": st.sampled_from(["reply", "reply", "reply", "fault", "cancel"]),
        }
    ),
    min_size=1,
    max_size=40,
)


class Costly:
    """Uses a share of the maximum of a call, after some turns of the event loop."""

    name = "openai:costly"

    def __init__(self, call, spec):
        self.call = call
        self.spec = spec

    async def reply(self, prompt):
        call, size = self.call, RequestSize.of_prompt(prompt, self.spec)
        for _ in range(call["turns"]):
            await asyncio.sleep(0)
        spent = round(size.max_input * call["input_share"])
        usage = Usage(
            spent, max(round(size.output * call["output_share"]), 1), round(spent * call["cached_share"])
        )
        if call["end"] == "fault":
            raise ModelFault("400: no", transient=False, usage=usage)
        return Reply("this", usage)


class Caps:
    """Checks every event, and tracks the largest excess of a call over its own estimate."""

    def __init__(self, paid_run):
        self.paid_run = paid_run
        self.reserved = {}
        self.over_tokens = 0
        self.over_money = 0.0
        paid_run.recorder.listeners.append(self.check)

    def check(self, recorded):
        event = recorded.event
        if isinstance(event, CallReserved):
            self.reserved[event.call] = event
        if isinstance(event, CallSettled):
            estimate = self.reserved[event.call]
            self.over_tokens = max(self.over_tokens, event.tokens - estimate.tokens)
            self.over_money = max(self.over_money, event.money_usd - estimate.money_usd)
        run = self.paid_run.run
        for tokens, money, cap in (
            (sum(Spend.of(run).tokens.values()), sum(Spend.of(run).money_usd.values()), POOLS),
            (Spend.of(run).tokens.get("evolver", 0), Spend.of(run).money_usd.get("evolver", 0.0), ROLES.evolver),
            (
                Spend.of(run).tokens.get("verifier", 0),
                Spend.of(run).money_usd.get("verifier", 0.0),
                ROLES.verifier,
            ),
        ):
            assert tokens <= cap.tokens + self.over_tokens
            assert money <= cap.money_usd + self.over_money + 1e-9


async def spend(paid_run, calls, subject=None):
    """Make the calls, eight at once; with a subject all of them for it and by the user role."""
    pending, expected = list(calls), AllowanceExceeded if subject else Exhausted

    async def worker():
        while pending:
            call = pending.pop(0)
            how = {"input_usd": 1.0, "cached_usd": 0.1, "output_usd": 4.0, "max_output_tokens": call["output"]}
            model = Costly(call, ModelSpec("openai", "costly", **how))
            prompt = Prompt("", (Message(Speaker.ASKER, "x" * call["letters"]),))
            role_model = paid_run.role_model(model, Role.USER if subject else call["role"], **how)
            task = asyncio.create_task(role_model.ask_about(prompt, subject or Subject("guess")))
            if call["end"] == "cancel":
                for _ in range(call["turns"] // 2 + 1):
                    await asyncio.sleep(0)
                task.cancel()
            (result,) = await asyncio.gather(task, return_exceptions=True)
            assert not isinstance(result, BaseException) or isinstance(
                result, expected | Outage | asyncio.CancelledError
            )

    await asyncio.gather(*(worker() for _ in range(WIDTH)))


@settings(max_examples=60)
@given(CALLS)
@example([COSTLIEST] * 24)
def test_a_cap_is_passed_by_at_most_one_calls_excess_over_its_estimate(calls):
    with tempfile.TemporaryDirectory() as folder:
        paid_run = PaidRun(Path(folder), POOLS, ROLES)
        Caps(paid_run)
        asyncio.run(spend(paid_run, calls))
        assert Spend.of(paid_run.run).reservations == {}, "everything is settled"


class Greedy:
    """Uses many times its limit, and answers once all callers that may ask have asked."""

    name = "openai:greedy"

    async def reply(self, _):
        for _ in range(40):
            await asyncio.sleep(0)
        return Reply("this", Usage(9_000, 5_000))


async def test_a_server_that_ignores_limits_does_not_pass_a_cap_with_concurrent_calls(tmp_path):
    paid_run = PaidRun(tmp_path, Pools(tokens=100_000))
    role_model = paid_run.role_model(Greedy(), max_output_tokens=500)

    async def worker():
        while True:
            await role_model.ask(Prompt("", (Message(Speaker.ASKER, "What next?"),)), "guess")

    results = await asyncio.gather(*(worker() for _ in range(WIDTH)), return_exceptions=True)
    assert all(isinstance(result, Exhausted) for result in results)
    assert Spend.of(paid_run.run).tokens == {"evolver": 8 * 14_000}, (
        "the last call began with room for its estimate"
    )


_PAYER = """
import asyncio, json, random, sys, time
from pathlib import Path
from loopty.domain.model import Message, ModelSpec, Prompt, Role, Speaker
from loopty.models.purse import RunPurse
from loopty.record.recorder import Recorder
from loopty.record.calls import Spend
from loopty.domain.task import Pools
from loopty.executors.process_locks import ProcessLocks
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.sqlite import SqliteLedger
from loopty.models.archive import Archive
from loopty.models.meter import MeteredModel
from loopty.models.meter import Meter, Settlements
from loopty.models.prices import rates_of
from loopty.domain.trial import Pool
from loopty.models.retry import Retry
from loopty.models.retry import Throttle
from loopty.testing.ledger_suite import run_events

top = Path(sys.argv[1])
recorder = Recorder(SqliteLedger(top / "ledger.sqlite"), lambda: 0.0)
recorder.record(lambda _: run_events())
purse = RunPurse(recorder, 1, Pools(), ProcessLocks(SafeFolder(top, ("owners",))).claim())

class Hanging:
    name = "scripted:hanging"

    async def reply(self, prompt):
        reserved = next(iter(Spend.of(recorder.history.runs[1]).reservations.values()))
        print(json.dumps([reserved.tokens, reserved.money_usd]), flush=True)
        await asyncio.Event().wait()

spec = ModelSpec("openai", "hanging", input_usd=1.0, output_usd=2.0)
meter = Meter(
    Role.EVOLVER, "hanging", spec, rates_of(spec), purse, Throttle(None), Settlements(), time.monotonic
)
retry = Retry("hanging", 5, 600.0, random.Random(0), time.monotonic, asyncio.sleep)
role_model = MeteredModel(Role.EVOLVER, Hanging(), spec, meter, Archive(SafeFolder(top, ("calls",))), retry)
asyncio.run(role_model.ask(Prompt("", (Message(Speaker.ASKER, "What next?"),)), "guess", pool=Pool.ATTEMPT))
"""


def test_a_process_killed_in_a_paid_call_is_charged_once_and_as_reserved(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", _PAYER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with child:
        tokens, money_usd = json.loads(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    recorder, owners = Recorder(ledger, lambda: 0.0), ProcessLocks(SafeFolder(tmp_path, ("owners",)))
    assert len(Spend.of(recorder.history.runs[1]).reservations) == 1
    for _ in range(2):
        recorder.record(lambda history: decisions.close_abandoned(history, owners.is_alive))
    run = recorder.history.runs[1]
    ledger.close()
    assert (Spend.of(run).tokens, Spend.of(run).money_usd) == ({"evolver": tokens}, {"evolver": money_usd})
    assert (Spend.of(run).reservations, Spend.of(run).unread) == ({}, {})
