"""The error rate of one candidate, where that of a whole run is limited.

The share of false keeps among all keeps is expected to stay below the rate of the run if the t-th candidate that
is compared in pairs gets the rate `run_rate · share(t) · (keeps so far + 1)`, and the shares sum to 1: the e-LOND
rule (Xu and Ramdas, 2024), which holds for evidence from bets however the candidates depend on each other.
"""

from __future__ import annotations

import math

# Slow enough to leave something for the hundredth candidate, fast enough to have a finite sum.
_DECAY = 1.1
_SUM = 9.585
"""The sum of (t + 1) ** -_DECAY over all t from 1, rounded up."""


def candidate_error_rate(error_rate: float, run_rate: float | None, compared: int, kept: int) -> float:
    """The rate for the next candidate, after `compared` others, of which `kept` were kept."""
    if run_rate is None:
        return error_rate
    share = math.pow(compared + 2, -_DECAY) / _SUM
    return min(error_rate, run_rate * share * (kept + 1))
