"""Simulated noise: measurements of the same code over time; higher is better, and the noise floor is 1."""

import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

from loopty.domain.evidence import noise_floor

Noise = Callable[[random.Random], Iterator[float]]

_CALIBRATION = 1000


def gaussian(rng: random.Random) -> Iterator[float]:
    while True:
        yield rng.gauss(0, 1)


def lognormal(rng: random.Random) -> Iterator[float]:
    """Noise like that of timings: a hard best case and a long tail of bad ones."""
    unit = _unit(_raw_lognormal)
    return (value / unit for value in _raw_lognormal(rng))


def student_t(rng: random.Random) -> Iterator[float]:
    """Wild outliers on both sides: Student's t with 3 degrees of freedom."""
    unit = _unit(_raw_student)
    return (value / unit for value in _raw_student(rng))


def drift(rng: random.Random) -> Iterator[float]:
    """A machine that gets slower by a tenth of the noise with each measurement."""
    return (value - 0.1 * step for step, value in enumerate(gaussian(rng)))


def autocorrelation(rng: random.Random) -> Iterator[float]:
    """Each measurement resembles the one before (correlation 0.5), so the order in a pair matters most here."""
    value = rng.gauss(0, 1)
    while True:
        yield value
        value = 0.5 * value + math.sqrt(0.75) * rng.gauss(0, 1)


def bursts(rng: random.Random) -> Iterator[float]:
    """A busy neighbour that appears once in 20 measurements, stays for 10 and costs 5 times the noise."""
    busy = False
    for value in gaussian(rng):
        yield value - 5 * busy
        busy = rng.random() < (0.9 if busy else 0.05)


NOISES: dict[str, Noise] = {
    "Gaussian": gaussian,
    "lognormal": lognormal,
    "Student t3": student_t,
    "drifting": drift,
    "autocorrelated": autocorrelation,
    "bursts": bursts,
}


def _raw_lognormal(rng: random.Random) -> Iterator[float]:
    while True:
        yield -rng.lognormvariate(0, 0.8)


def _raw_student(rng: random.Random) -> Iterator[float]:
    while True:
        yield rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2) / 3)


@cache
def _unit(raw: Noise) -> float:
    samples = islice(raw(random.Random(0)), _CALIBRATION)
    return noise_floor([{"value": value} for value in samples])["value"]
