"""Machines whose speed changes during a night: the share of its speed that a machine has lost, by measurement."""

import random
from collections.abc import Callable, Iterator

Machine = Callable[[random.Random], Iterator[float]]

SHIFT = 0.05
"""The largest change of speed, as a share."""
_FROM, _TO = 60, 160
_SWITCH = 1 / 40
_WALK = 0.002
_BUSY_SWITCH, _BUSY_SHARE, _BUSY_LOSS = 1 / 8, 0.5, 0.5


def steady(_rng: random.Random) -> Iterator[float]:
    while True:
        yield 0.0


def slowing(_rng: random.Random) -> Iterator[float]:
    """Loses its speed between two measurements early in the night: a machine that gets warm."""
    measurement = 0
    while True:
        yield SHIFT * min(max((measurement - _FROM) / (_TO - _FROM), 0.0), 1.0)
        measurement += 1


def slowed_at_once(_rng: random.Random) -> Iterator[float]:
    """Loses its speed from one measurement to the next: another program has started."""
    measurement = 0
    while True:
        yield SHIFT * (measurement >= _FROM)
        measurement += 1


def speeding(_rng: random.Random) -> Iterator[float]:
    """Gains speed early in the night: another program has ended."""
    return (SHIFT - lost for lost in slowing(_rng))


def two_frequencies(rng: random.Random) -> Iterator[float]:
    """Switches between two speeds, about once in forty measurements."""
    slow = False
    while True:
        yield SHIFT * slow
        slow ^= rng.random() < _SWITCH


def random_walk(rng: random.Random) -> Iterator[float]:
    """Wanders by about a fifth of a percent with each measurement."""
    lost = 0.0
    while True:
        yield lost
        lost += rng.gauss(0, _WALK)


def busy(rng: random.Random) -> Iterator[float]:
    """Loses up to half of its speed, for about eight measurements at a time: others use it, too."""
    lost = 0.0
    while True:
        yield lost
        if rng.random() < _BUSY_SWITCH:
            lost = rng.uniform(0.0, _BUSY_LOSS) if rng.random() < _BUSY_SHARE else 0.0


def alternating(rng: random.Random) -> Iterator[float]:
    """Each trial lands on one of two hosts, of which one is slower."""
    while True:
        yield SHIFT * (rng.random() < 0.5)


MACHINES: dict[str, Machine] = {
    "steady": steady,
    "slowing": slowing,
    "slowed at once": slowed_at_once,
    "speeding up": speeding,
    "two frequencies": two_frequencies,
    "random walk": random_walk,
}
