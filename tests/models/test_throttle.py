"""The throttle keeps its limits in any minute, first come, first served."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.models.retry import Throttle

from .timing import Time


async def start_times(throttle, time, sizes):
    """The time of each start; all callers come at once."""
    times = []

    async def start(index, size):
        await throttle.start(size)
        times.append((index, time.now))

    await asyncio.gather(*(start(index, size) for index, size in enumerate(sizes)))
    return times


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(10, 60), st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_no_window_of_a_minute_holds_more_than_the_limits(requests, tokens, sizes):
    time = Time()
    throttle = Throttle(requests, tokens, time.clock, time.sleep)
    times = asyncio.run(start_times(throttle, time, sizes))
    assert [index for index, _ in times] == list(range(len(sizes))), "first come, first served"
    for _, begin in times:
        in_minute = [index for index, at in times if begin <= at < begin + 60]
        assert len(in_minute) <= requests
        assert sum(sizes[index] for index in in_minute) <= tokens or len(in_minute) == 1


async def test_nothing_waits_where_there_is_no_limit():
    time = Time()
    await start_times(Throttle(None, None, time.clock, time.sleep), time, [10**9] * 20)
    assert time.slept == []


async def test_a_request_larger_than_the_whole_limit_goes_alone():
    time = Time()
    times = await start_times(Throttle(None, 100, time.clock, time.sleep), time, [50, 500, 50])
    assert [round(at - 1000) for _, at in times] == [0, 60, 120]


async def test_a_call_that_used_less_than_estimated_makes_room_early():
    time = Time()
    throttle = Throttle(None, 100, time.clock, time.sleep)
    first = await throttle.start(100)
    second = asyncio.create_task(throttle.start(60))
    await time.sleep(3)
    first.tokens = 10
    await second
    assert time.now < 1010


async def test_a_call_that_used_more_than_estimated_makes_others_wait():
    time = Time()
    throttle = Throttle(None, 100, time.clock, time.sleep)
    (await throttle.start(10)).tokens = 90
    await throttle.start(20)
    assert time.now >= 1060


async def test_an_undone_start_frees_its_place():
    time = Time()
    throttle = Throttle(1, None, time.clock, time.sleep)
    throttle.undo(await throttle.start())
    await throttle.start()
    assert time.now == 1000


@pytest.mark.parametrize(("per_minute", "third"), [(2.9, 60), (1, 120), (0.5, 240)])
async def test_fractional_limits_hold_too(per_minute, third):
    time = Time()
    times = await start_times(Throttle(per_minute, clock=time.clock, sleep=time.sleep), time, [0, 0, 0])
    assert round(times[-1][1] - 1000) == third


async def test_a_caller_that_gives_up_waiting_does_not_block_the_others():
    time = Time()
    throttle = Throttle(1, None, time.clock, time.sleep)
    await throttle.start()
    impatient, patient = (asyncio.create_task(throttle.start()) for _ in range(2))
    await time.sleep(5)
    impatient.cancel()
    await patient
    assert time.now < 1065
