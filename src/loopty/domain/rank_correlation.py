"""Rank correlation: how well one measurement predicts the order by another."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loopty.kit.records import Record

_FEWEST = 4
_NORMAL_QUANTILE = 1.645


class RankCorrelation(Record):
    """Spearman's coefficient with its 90 % interval."""

    value: float
    low: float
    high: float
    count: int


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> RankCorrelation | None:
    """The rank correlation of these pairs; None for fewer than four, and where one side never varies."""
    if len(pairs) < _FEWEST:
        return None
    mine, theirs = _ranks([pair[0] for pair in pairs]), _ranks([pair[1] for pair in pairs])
    middle = (len(pairs) + 1) / 2
    spread = math.prod(sum((rank - middle) ** 2 for rank in ranks) for ranks in (mine, theirs))
    if not spread:
        return None
    shared = sum((one - middle) * (other - middle) for one, other in zip(mine, theirs, strict=True))
    value = shared / math.sqrt(spread)
    # Fisher's transformation; the factor is that of Bonett and Wright (2000) for ranks.
    near = math.atanh(max(min(value, 0.999999), -0.999999))
    error = _NORMAL_QUANTILE * math.sqrt((1 + value * value / 2) / (len(pairs) - 3))
    return RankCorrelation(value, math.tanh(near - error), math.tanh(near + error), len(pairs))


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value from 1; equal values share the mean of their places."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for index in order[start:stop]:
            ranks[index] = (start + 1 + stop) / 2
        start = stop
    return ranks
