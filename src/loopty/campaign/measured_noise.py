"""How much the score of a checked task varies."""

from __future__ import annotations

import statistics

from loopty.kit.records import Record


class MeasuredNoise(Record):
    """How much the score varied over a few checked runs."""

    metric: str
    values: tuple[float, ...]
    seconds: tuple[float, ...] = ()
    """How long each of the runs took."""

    @property
    def percent(self) -> float:
        """The standard deviation in percent of the mean; 0 where every run gave the same."""
        mean = statistics.fmean(self.values)
        spread = statistics.stdev(self.values)
        return 100 * spread / abs(mean) if mean else 0.0
