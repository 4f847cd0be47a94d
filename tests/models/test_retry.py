"""One layer retries requests: how often, with which pauses, and how an outage ends."""

import asyncio
import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.errors import Exhausted
from loopty.domain.model import ModelFault, Outage
from loopty.models.retry import FAILURES_UNTIL_OUT, Retry

from .timing import Time


def fault(reason="503", **how):
    return ModelFault(reason, **{"transient": True, **how})


class Server:
    """Answers or fails as the script says; the last line repeats for ever."""

    def __init__(self, time, *script):
        self.time = time
        self.script = script
        self.requested_at = []
        self.open = self.most_open = 0

    async def request(self):
        line = self.script[min(len(self.requested_at), len(self.script) - 1)]
        self.requested_at.append(self.time.now)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await self.time.sleep(0.01)
        self.open -= 1
        if isinstance(line, Exception):
            raise line
        return line


def layer(time, retries=5, outage_seconds=600.0):
    return Retry("openai:m", retries, outage_seconds, random.Random(0), time.clock, time.sleep)


async def test_a_transient_fault_is_retried_until_there_is_an_answer():
    time = Time()
    server = Server(time, fault(), fault(), "yes")
    assert await layer(time).ask(server.request) == "yes"
    assert len(server.requested_at) == 3


async def test_pauses_are_drawn_from_a_range_that_doubles():
    time = Time()
    draws = []

    class Loud(random.Random):
        def uniform(self, low, high):
            draws.append((low, high))
            return high

    retry = Retry("m", 5, 600.0, Loud(), time.clock, time.sleep)
    await retry.ask(Server(time, *[fault()] * 4, "yes").request)
    assert draws == [(0, 1.0), (0, 2.0), (0, 4.0), (0, 8.0)]


async def test_all_callers_wait_as_long_as_the_server_asks():
    time = Time()
    server = Server(time, fault("429", retry_after_seconds=42), "one", "two")
    retry = layer(time)
    first = asyncio.create_task(retry.ask(server.request))
    await time.sleep(1)
    await asyncio.gather(first, retry.ask(server.request))
    assert all(at >= 1042 for at in server.requested_at[1:])


async def test_a_requested_wait_beyond_the_outage_limit_ends_at_once():
    time = Time()
    with pytest.raises(Outage, match="the server asks to wait 3600 s"):
        await layer(time).ask(Server(time, fault("429", retry_after_seconds=3600)).request)
    assert time.now < 1010


async def test_a_permanent_fault_ends_retries_at_once_with_its_reason():
    time = Time()
    server = Server(time, fault("401: the key in OPENAI_API_KEY was refused", transient=False))
    with pytest.raises(Outage, match=r"openai:m: 401: the key in OPENAI_API_KEY was refused"):
        await layer(time).ask(server.request)
    assert len(server.requested_at) == 1
    assert time.now < 1001


async def test_an_outage_ends_after_its_time_with_the_number_of_requests():
    time = Time()
    server = Server(time, fault("503: down"))
    with pytest.raises(Outage) as caught:
        await layer(time, outage_seconds=600).ask(server.request)
    assert str(caught.value).startswith(
        f"openai:m gave no reply: {len(server.requested_at)} requests in a row failed"
    )
    assert str(caught.value).endswith("the last with: 503: down")
    assert 1600 <= time.now < 1602, "the outage is waited out, with a last try at the end"
    assert len(server.requested_at) < 25


async def test_eight_callers_of_a_model_that_is_out_send_few_requests():
    time = Time()
    server = Server(time, fault())
    retry = layer(time)
    results = await asyncio.gather(*(retry.ask(server.request) for _ in range(8)), return_exceptions=True)
    assert all(isinstance(result, Outage) for result in results)
    assert len(server.requested_at) < 8 + 15
    gaps = [
        after - before for before, after in zip(server.requested_at[8:], server.requested_at[9:], strict=False)
    ]
    assert all(gap >= 1 for gap in gaps), "one caller at a time probes"
    assert gaps[:3] == sorted(gaps[:3]), "after longer and longer pauses"
    assert max(gaps) < 61


async def test_all_callers_go_on_when_the_model_is_back():
    time = Time()
    server = Server(time, *[fault()] * (8 + 3), "yes")
    retry = layer(time)
    assert await asyncio.gather(*(retry.ask(server.request) for _ in range(8))) == ["yes"] * 8
    assert len(server.requested_at) == 8 + 3 + 8
    assert server.requested_at[-1] - server.requested_at[-7] < 2, (
        "the others did not wait for a probe of their own"
    )


async def test_a_cancelled_probe_lets_another_caller_probe():
    time = Time()
    hanging, out = asyncio.Event(), asyncio.Event()
    failures = itertools.count(1)
    retry = layer(time)

    async def fail():
        if next(failures) == FAILURES_UNTIL_OUT:
            out.set()
        raise fault()

    async def hang():
        hanging.set()
        await asyncio.Event().wait()

    async def succeed():
        return "yes"

    failed = asyncio.create_task(retry.ask(fail))
    await out.wait()
    failed.cancel()
    stuck = asyncio.create_task(retry.ask(hang))
    await hanging.wait()
    waiting = asyncio.create_task(retry.ask(succeed))
    await asyncio.sleep(0)
    stuck.cancel()
    assert await waiting == "yes"


@pytest.mark.parametrize("retries", [0, 2, 4])
async def test_a_request_that_fails_while_others_succeed_has_limited_retries(retries):
    time = Time()
    retry = layer(time, retries)
    server = Server(time, fault("504: too slow"))

    async def fail_alone():
        await retry.ask(lambda: asyncio.sleep(0, "yes"))
        return await server.request()

    with pytest.raises(Outage, match=f"answers other requests, but failed one {retries + 1} times"):
        await retry.ask(fail_alone)
    assert len(server.requested_at) == retries + 1


async def test_requests_without_retries_still_wait_for_the_model():
    time = Time()
    server = Server(time, fault(), fault(), "yes")
    assert await layer(time, retries=0).ask(server.request) == "yes"
    assert [round(at - 1000) for at in server.requested_at] == [0, 5, 15]


async def test_without_time_for_outages_the_first_failure_ends_the_call():
    time = Time()
    server = Server(time, fault())
    with pytest.raises(Outage, match="a request failed"):
        await layer(time, outage_seconds=0).ask(server.request)
    assert len(server.requested_at) == 1


async def test_soon_after_an_outage_a_new_call_fails_without_a_request():
    time = Time()
    server = Server(time, fault(), "yes")
    retry = layer(time, outage_seconds=0)
    for _ in range(3):
        with pytest.raises(Outage):
            await retry.ask(server.request)
    assert len(server.requested_at) == 1
    await time.sleep(10)
    assert await retry.ask(server.request) == "yes"


async def test_time_without_requests_is_no_outage():
    time = Time()
    retry = layer(time)
    cancelled = asyncio.create_task(retry.ask(Server(time, fault()).request))
    await time.sleep(0.02)
    cancelled.cancel()
    await time.sleep(3600)
    server = Server(time, *[fault()] * FAILURES_UNTIL_OUT, "yes")
    assert await retry.ask(server.request) == "yes"


async def test_an_exhausted_budget_does_not_count_as_a_model_failure():
    time = Time()
    retry = layer(time)

    async def exhaust():
        raise Exhausted("nothing left")

    for _ in range(10):
        with pytest.raises(Exhausted):
            await retry.ask(exhaust)
    assert await retry.ask(Server(time, "yes").request) == "yes"
    assert time.now < 1001


async def test_later_callers_do_not_wait_out_a_requested_wait_beyond_the_limit():
    time = Time()
    retry = layer(time)

    async def slow():
        await time.sleep(5)
        return "yes"

    limited = Server(time, fault("429", retry_after_seconds=86_400))
    results = await asyncio.gather(retry.ask(slow), retry.ask(limited.request), return_exceptions=True)
    assert results[0] == "yes"
    before = time.now
    with pytest.raises(Outage, match="the server asks to wait 8"):
        await retry.ask(slow)
    assert time.now == before


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_caller_gets_an_answer_or_an_outage_in_time(seed):
    rng, time = random.Random(seed), Time()
    retry = layer(time, rng.choice([0, 1, 5]), outage := rng.choice([0.0, 5.0, 60.0, 600.0]))
    often, waited = rng.random(), [0.0]

    async def request():
        await time.sleep(rng.choice([0.01, 1.0, 30.0]))
        if rng.random() > often:
            return "yes"
        if rng.random() < 0.2:
            raise rng.choice([fault(transient=False), ValueError("odd")])
        raise fault(retry_after_seconds=rng.choice([None, None, 0, 1, 30, 500, 1e12, math.inf, math.nan]))

    async def caller():
        for _ in range(3):
            await time.sleep(rng.choice([0, 1, 100, 1000]))
            before, task = time.now, asyncio.create_task(retry.ask(request))
            if rng.random() < 0.15:
                await time.sleep(rng.choice([0.5, 3, 40]))
                task.cancel()
            (result,) = await asyncio.gather(task, return_exceptions=True)
            assert result == "yes" or isinstance(result, Outage | ValueError | asyncio.CancelledError)
            waited.append(time.now - before)

    async def crowd():
        await asyncio.wait_for(asyncio.gather(*(caller() for _ in range(rng.choice([1, 8])))), 120)

    asyncio.run(crowd())
    # Pauses between retries and the requests of earlier callers come on top.
    assert max(waited) <= 2 * outage + 6 * 60 + 8 * 30
