"""Shares of arms that move along a score-function estimate of reward for the price, and spread in a drought."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loopty.record.operator_credit import ArmCredit

_RATE = 0.3
_STEEPEST = 3.0
"""No arm becomes more than e^6 times as likely as another."""
_LEAST_SPREAD, _MOST_SPREAD = 0.1, 0.5
_MEMORY = 0.9
"""What is left of the signal of improvement after one verdict without a new best node."""


def arm_shares(arms: Sequence[tuple[ArmCredit, float]], dry_verdicts: int) -> list[float]:
    """The chance of each arm, given its credit and its price.

    The sums of rewards make the estimate: each proposal moves its arm by its reward for the price less the mean.
    """
    asked = sum(credit.asked for credit, _ in arms)
    rates = [credit.reward / price / max(credit.asked, 1) for credit, price in arms]
    mean = sum(rate * credit.asked for rate, (credit, _) in zip(rates, arms, strict=True)) / max(asked, 1)
    slopes = [
        _RATE * credit.asked * (rate - mean) / (abs(mean) + 0.05)
        for rate, (credit, _) in zip(rates, arms, strict=True)
    ]
    odds = [math.exp(min(max(slope, -_STEEPEST), _STEEPEST)) for slope in slopes]
    total, spread = sum(odds), drought_spread(dry_verdicts)
    return [(1 - spread) * one / total + spread / len(arms) for one in odds]


def drought_spread(dry_verdicts: int) -> float:
    """The share of proposals that is drawn alike: it grows with each verdict without a new best node."""
    return _MOST_SPREAD - (_MOST_SPREAD - _LEAST_SPREAD) * _MEMORY**dry_verdicts
