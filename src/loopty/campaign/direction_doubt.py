"""Whether the score grows with the time that a run takes: then it is a time, and lower is better."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from loopty.campaign.measured_noise import MeasuredNoise
from loopty.domain.outcome import Outcome

_SLOWEST = 10.0
"""Seconds: a longer run is not repeated at a third of its speed."""
_SLOWER = 1.3
_GROWTH = 1.3
"""A score that is a time grows at least so much at a third of the speed, above all that was seen before."""
_CORRELATION = 0.95
_CORRELATION_OF_SLOW = 0.9
"""Of independent scores, one in 200 looks so by chance: the runs that were slowed down count, too."""
_FEWEST_RUNS = 4
_SHARES = (0.5, 20.0)
"""How much a time grows when its run takes one percent longer: about as much, or more after a long start."""


def direction_doubt(noise: MeasuredNoise | None, slow_run: Callable[[], Outcome], seconds: float) -> str:
    """Say why a score of which more is better may be a time; empty if nothing speaks for it.

    The checked runs show it where they differ; else two runs at a third of the speed, if `seconds` are enough.
    """
    if noise is None or min(noise.values) <= 0 or min(noise.values) == max(noise.values):
        return ""  # what is the same each time is no time
    runs = [*zip(noise.seconds, noise.values, strict=True)]
    if _follow_duration(runs, _CORRELATION):
        return f"{noise.metric} grew and fell with the duration of the {len(runs)} checked runs"
    longest = max(noise.seconds)
    if longest > _SLOWEST or 8 * longest > seconds:
        return ""
    slow = [
        (one.seconds, one.metrics[noise.metric]) for one in (slow_run(), slow_run()) if noise.metric in one.metrics
    ]
    if len(slow) < 2 or min(slow)[0] < _SLOWER * longest:
        return ""
    grew = min(value for _, value in slow) > _GROWTH * max(noise.values)
    if not grew and not _follow_duration([*runs, *slow], _CORRELATION_OF_SLOW):
        return ""
    usual, value = statistics.median(noise.values), statistics.fmean(value for _, value in slow)
    return f"{noise.metric} grew from {usual:.3g} to {value:.3g} in runs that were slowed down"


def _follow_duration(runs: Sequence[tuple[float, float]], least: float) -> bool:
    """Say whether the values of these runs grow with their seconds, and by about as much."""
    seconds, values = zip(*runs, strict=True)
    if len(runs) < _FEWEST_RUNS or min(seconds) == max(seconds):
        return False
    slope = statistics.linear_regression(seconds, values).slope
    share = slope * statistics.fmean(seconds) / statistics.fmean(values)
    return statistics.correlation(seconds, values) >= least and _SHARES[0] <= share <= _SHARES[1]
