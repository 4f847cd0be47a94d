"""Concurrent calls of one meter: all of them end, and each is settled once, whatever goes wrong."""

import asyncio
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelFault, ModelSpec, Prompt, Reply, Role, Speaker, Usage
from loopty.domain.task import Pools
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.meter import Meter, RequestSize, Subject
from loopty.models.prices import rates_of
from loopty.models.retry import Throttle
from loopty.record.calls import CallReserved, CallSettled, Spend

from .spending import PaidRun

PROMPT = Prompt("", (Message(Speaker.ASKER, "What next?"),))
ODD = (ValueError("odd"), KeyError("odder"), RuntimeError("oddest"), OSError("no route"), Misuse("your fault"))


class Moody:
    """Answers, fails, raises or takes its time, at random."""

    name = "scripted:moody"

    def __init__(self, rng, time):
        self._rng = rng
        self._time = time

    async def reply(self, _):
        await self._time.sleep(self._rng.choice([0.01, 1.0, 30.0]))
        draw = self._rng.random()
        if draw < 0.2:
            raise self._rng.choice(ODD)
        if draw < 0.4:
            usage = self._rng.choice([None, Usage(5, 5)])
            raise ModelFault("503", transient=self._rng.random() < 0.8, usage=usage)
        return Reply("this", self._rng.choice([Usage(), Usage(20, 30), Usage(-5, 3), Usage(10**12, 1)]))


def calls_of(paid_run, kind):
    return [recorded.event.call for recorded in paid_run.ledger.read() if isinstance(recorded.event, kind)]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_call_is_settled_once_despite_faults_and_cancellation(seed):
    rng = random.Random(seed)

    async def spend(paid_run):
        throttle = Throttle(
            rng.choice([None, 30]), rng.choice([None, 5_000]), paid_run.time.clock, paid_run.time.sleep
        )
        role_model = paid_run.role_model(
            Moody(rng, paid_run.time), throttle=throttle, max_output_tokens=700, outage_seconds=60.0
        )

        async def caller():
            for _ in range(4):
                task = asyncio.create_task(role_model.ask(PROMPT, "guess"))
                if rng.random() < 0.3:
                    await paid_run.time.sleep(rng.choice([0.005, 0.5, 20.0]))
                    task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        await asyncio.wait_for(asyncio.gather(*(caller() for _ in range(8))), 120)

    with tempfile.TemporaryDirectory() as folder:
        if rng.random() < 0.2:
            Path(folder, "calls").touch()  # so that no reply can be archived
        paid_run = PaidRun(Path(folder), Pools(tokens=rng.choice([None, 3_000, 20_000])))
        asyncio.run(spend(paid_run))
        assert Spend.of(paid_run.run).reservations == {}
        assert sorted(calls_of(paid_run, CallReserved)) == sorted(calls_of(paid_run, CallSettled))


async def test_an_unwritable_ledger_is_reported_and_the_next_call_works(tmp_path):
    class Failing(MemoryLedger):
        full = False

        def write_lock(self):
            if self.full:
                raise Misuse("the disk is full")
            return super().write_lock()

    ledger = Failing()
    paid_run = PaidRun(tmp_path, ledger=ledger)

    class Model:
        name = "scripted:m"

        async def reply(self, _):
            ledger.full = not ledger.full
            return Reply("this", Usage(1, 1))

    role_model = paid_run.role_model(Model())
    (result,) = await asyncio.gather(role_model.ask(PROMPT, "guess"), return_exceptions=True)
    assert str(result) == "the disk is full"
    ledger.full = False
    Model.reply = lambda *_: asyncio.sleep(0, Reply("this", Usage(1, 1)))
    assert (await role_model.ask(PROMPT, "guess")).reply.text == "this"
    assert len(Spend.of(paid_run.run).reservations) == 1, (
        "a call that could not be settled stays reserved until the process ends"
    )


async def test_a_model_that_reports_no_usage_is_still_called_concurrently(tmp_path):
    paid_run = PaidRun(tmp_path, Pools(tokens=100_000))
    spec = ModelSpec("scripted", file="s")
    throttle = Throttle(None, None, paid_run.time.clock, paid_run.time.sleep)
    meter = Meter(
        Role.USER, "m", spec, rates_of(spec), paid_run.purse, throttle, paid_run.settlements, paid_run.time.clock
    )
    size, subject = RequestSize(10, 20, 30), Subject("benchmark")
    first = await meter.reserve(size, subject)
    first.settle(None, "")
    concurrent = [await asyncio.wait_for(meter.reserve(size, subject), 60) for _ in range(3)]
    assert len(Spend.of(paid_run.run).reservations) == 3
    for reservation in concurrent:
        reservation.settle(None, "")
