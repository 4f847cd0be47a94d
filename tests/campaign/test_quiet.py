"""What others disturbed waits for a quiet moment."""

import itertools

from loopty.campaign.optimize import wait_for_quiet
from loopty.kit.machine_load import LoadSeen


def loads(*idle):
    """Return loads of 100 ticks each, with so many idle ones; the last for ever."""
    ticks, idles = (
        itertools.count(0.0, 100.0),
        itertools.accumulate(itertools.chain(idle, itertools.repeat(idle[-1]))),
    )
    return lambda: LoadSeen(0.0, 0.0, 0.0, next(ticks), next(idles))


async def test_it_ends_when_the_machine_has_room_and_says_once_that_it_waits():
    said = []
    await wait_for_quiet(lambda: True, 1.0, said.append, loads(0, 0, 0, 0, 100), look_seconds=0)
    assert len(said) == 1
    assert said[0].startswith("waiting for a quiet moment, ten minutes at most")


async def test_it_ends_when_the_budget_does_and_in_any_case():
    said = []
    await wait_for_quiet(lambda: False, 1.0, said.append, loads(0), look_seconds=0)
    assert said == []
    await wait_for_quiet(lambda: True, 1.0, said.append, loads(0), look_seconds=0)
    assert len(said) == 1
