"""What a candidate's gain is after the winner's curse: it was kept because it measured well, partly by luck.

An estimate that is only stated where it exceeds about 1.75 standard errors is too high on average. The stated gain
is the one under which such an estimate would be expected, given that it was stated: small gains shrink by a half,
gains of three times the noise not at all. docs/research/judge.md has the figures.
"""

from __future__ import annotations

import math

# Fitted on simulated decisions; the bet has no such threshold of its own, but acts like one.
_STATED_ABOVE = 1.75
_STEPS = 40


def shrunk_gain(gain: float, standard_error: float) -> float:
    """The gain without the luck of having been selected; at least 0."""
    if standard_error <= 0 or gain <= 0:
        return max(gain, 0.0)
    observed = gain / standard_error
    low, high = 0.0, observed
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _expectation_if_stated(middle) < observed else (low, middle)
    return low * standard_error


def _expectation_if_stated(true: float) -> float:
    """The mean of a normal variable around `true`, of those draws that exceed the threshold."""
    beyond = _STATED_ABOVE - true
    tail = math.erfc(beyond / math.sqrt(2)) / 2
    return true + math.exp(-beyond * beyond / 2) / math.sqrt(2 * math.pi) / tail
