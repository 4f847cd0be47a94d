"""Calls of one meter side by side: all of them end, and each is settled once, whatever goes wrong around them."""

import asyncio
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelFault, ModelSpec, Prompt, Reply, Role, Speaker, Usage
from loopty.domain.task import Pools
from loopty.ledgers.memory import MemoryLedger
from loopty.models.meter import Meter, RequestSize, Subject
from loopty.models.prices import rates_of
from loopty.models.throttle import Throttle
from loopty.record.calls import CallReserved, CallSettled, Spend

from .spending import RunWithModels

PROMPT = Prompt("", (Message(Speaker.ASKER, "What next?"),))
ODD = (ValueError("odd"), KeyError("odder"), RuntimeError("oddest"), OSError("no route"), Misuse("your fault"))


class Moody:
    """Answers, fails, breaks or takes its time, as the draw has it."""

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


def told(desk, kind):
    return [recorded.event.call for recorded in desk.ledger.read() if isinstance(recorded.event, kind)]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_goes_wrong_every_call_is_settled_once(seed):
    rng = random.Random(seed)

    async def spend(desk):
        throttle = Throttle(rng.choice([None, 30]), rng.choice([None, 5_000]), desk.time.clock, desk.time.sleep)
        line = desk.line(Moody(rng, desk.time), throttle=throttle, max_output_tokens=700, outage_seconds=60.0)

        async def caller():
            for _ in range(4):
                asking = asyncio.create_task(line.ask(PROMPT, "guess"))
                if rng.random() < 0.3:
                    await desk.time.sleep(rng.choice([0.005, 0.5, 20.0]))
                    asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

        await asyncio.wait_for(asyncio.gather(*(caller() for _ in range(8))), 120)

    with tempfile.TemporaryDirectory() as place:
        if rng.random() < 0.2:
            Path(place, "calls").touch()  # where no reply can be kept
        desk = RunWithModels(Path(place), Pools(tokens=rng.choice([None, 3_000, 20_000])))
        asyncio.run(spend(desk))
        assert Spend.of(desk.run).reservations == {}
        assert sorted(told(desk, CallReserved)) == sorted(told(desk, CallSettled))


async def test_a_ledger_that_cannot_be_written_is_told_and_the_next_call_is_made(tmp_path):
    class Failing(MemoryLedger):
        full = False

        def write_lock(self):
            if self.full:
                raise Misuse("the disk is full")
            return super().write_lock()

    ledger = Failing()
    desk = RunWithModels(tmp_path, ledger=ledger)

    class Model:
        name = "scripted:m"

        async def reply(self, _):
            ledger.full = not ledger.full
            return Reply("this", Usage(1, 1))

    line = desk.line(Model())
    (end,) = await asyncio.gather(line.ask(PROMPT, "guess"), return_exceptions=True)
    assert str(end) == "the disk is full"
    ledger.full = False
    Model.reply = lambda *_: asyncio.sleep(0, Reply("this", Usage(1, 1)))
    assert (await line.ask(PROMPT, "guess")).reply.text == "this"
    assert len(Spend.of(desk.run).reservations) == 1, (
        "what could not be settled stays set aside until the process ends"
    )


async def test_a_model_that_does_not_count_is_asked_side_by_side_all_the_same(tmp_path):
    desk = RunWithModels(tmp_path, Pools(tokens=100_000))
    stated = ModelSpec("scripted", file="s")
    throttle = Throttle(None, None, desk.time.clock, desk.time.sleep)
    meter = Meter(
        Role.USER, "m", stated, rates_of(stated), desk.purse, throttle, desk.settlements, desk.time.clock
    )
    size, subject = RequestSize(10, 20, 30), Subject("benchmark")
    first = await meter.reserve(size, subject)
    first.settle(None, "")
    beside = [await asyncio.wait_for(meter.reserve(size, subject), 60) for _ in range(3)]
    assert len(Spend.of(desk.run).reservations) == 3
    for reservation in beside:
        reservation.settle(None, "")
