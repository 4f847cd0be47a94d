"""Shares of arms that move along a score-function estimate of reward for the price, and spread in a drought."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from loopty.record.operator_credit import ArmCredit
from loopty.record.search_learning import GainSum, SearchLearning

_RATE = 0.3
_STEEPEST = 3.0
"""No arm becomes more than e^6 times as likely as another."""
_MOST_SPREAD = 0.5
_RESTART_DRAFTS = 0.25
"""The share of proposals that starts anew in a long drought."""
_PRIOR_GAINS, _LEAST_GAIN = 4, 0.05


def arm_shares(
    arms: Sequence[tuple[ArmCredit, float]], spread: float, biases: Sequence[float] | None = None
) -> list[float]:
    """The chance of each arm, given its credit and its price; `spread` is the share that is drawn alike.

    The sums of rewards make the estimate: each proposal moves its arm by its reward for the price less the mean.
    """
    asked = sum(credit.asked for credit, _ in arms)
    rates = [credit.reward / price / max(credit.asked, 1) for credit, price in arms]
    mean = sum(rate * credit.asked for rate, (credit, _) in zip(rates, arms, strict=True)) / max(asked, 1)
    slopes = [
        _RATE * credit.asked * (rate - mean) / (abs(mean) + 0.05)
        for rate, (credit, _) in zip(rates, arms, strict=True)
    ]
    odds = [
        bias * math.exp(min(max(slope, -_STEEPEST), _STEEPEST))
        for slope, bias in zip(slopes, biases or [1.0] * len(arms), strict=True)
    ]
    total = sum(odds)
    return [(1 - spread) * one / total + spread / len(arms) for one in odds]


def gain_bias(gains: Mapping[str, GainSum], name: str) -> float:
    """How much more than others an operator, or a mutation by its tag, gains; 1 is alike.

    What was seldom tried is believed to be like the others of its kind.
    """
    is_tag = ":" in name
    others = [gain for other, gain in gains.items() if (":" in other) is is_tag]
    mean = sum(gain.total for gain in others) / max(sum(gain.count for gain in others), 1)
    own = gains.get(name, GainSum())
    return ((own.total + _PRIOR_GAINS * mean) / (own.count + _PRIOR_GAINS) + _LEAST_GAIN) / (mean + _LEAST_GAIN)


def drought_spread(learning: SearchLearning) -> float:
    """The share of proposals that is drawn alike: it grows while the signal of improvement decays."""
    least = learning.config.exploration
    return least + max(_MOST_SPREAD - least, 0.0) * (1 - learning.signal)


def draft_share(learning: SearchLearning) -> float:
    """The share of proposals that starts anew from the baseline."""
    config = learning.config
    return config.drafts if learning.dry < config.restart else max(config.drafts, _RESTART_DRAFTS)
