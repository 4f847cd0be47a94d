"""How large a gain is, from pairs that were measured for this question alone.

The estimate is the median of the means of all two pairs (Hodges and Lehmann), the interval the one that Wilcoxon's
signed ranks do not exclude: both assume that gains lie symmetrically around the true one, which a coin for the
order within pairs brings about, and nothing about their shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.evidence import median
from loopty.kit.records import Record

LEVEL = 0.95
FEWEST_PAIRS = 6
"""With fewer pairs no interval has the level."""


class PairedEstimate(Record):
    """A gain with its interval."""

    amount: float
    low: float
    high: float
    pairs: int


def paired_estimate(gains: Sequence[float]) -> PairedEstimate | None:
    """The gain that these pairs show; None with too few of them."""
    count = len(gains)
    if count < FEWEST_PAIRS:
        return None
    means = sorted(one / 2 + other / 2 for place, one in enumerate(gains) for other in gains[place:])
    excluded = _ranks_to_leave_out(count)
    return PairedEstimate(median(means), means[excluded], means[-1 - excluded], count)


def _ranks_to_leave_out(pairs: int) -> int:
    """How many of the smallest, and of the largest, means lie outside of the interval."""
    # ways[s]: the number of ways to choose ranks with the sum s, each rank with the chance of one half.
    ways = [1]
    for rank in range(1, pairs + 1):
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    most, seen = 2**pairs * (1 - LEVEL) / 2, 0
    for total, count in enumerate(ways):
        seen += count
        if seen > most:
            return total - 1
    raise AssertionError("all the ways together are more than a share of them")
