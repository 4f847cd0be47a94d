"""Waits for events that go on from one wait to the next."""

import asyncio

from loopty.engine.loop import EventWaits


async def is_done_soon(waits: EventWaits) -> bool:
    done, _ = await asyncio.wait(waits.tasks(), timeout=0.02, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


async def test_a_wait_ends_when_an_event_is_set_and_the_next_one_waits_again():
    one, other = asyncio.Event(), asyncio.Event()
    with EventWaits(one, other) as waits:
        assert not await is_done_soon(waits)
        first = waits.tasks()
        assert waits.tasks() == first
        other.set()
        assert await is_done_soon(waits)
        other.clear()
        assert not await is_done_soon(waits)
        one.set()
        assert await is_done_soon(waits)


async def test_no_task_is_left_behind():
    with EventWaits(asyncio.Event(), asyncio.Event()) as waits:
        tasks = waits.tasks()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    assert asyncio.all_tasks() == {asyncio.current_task()}
