"""Pruners stop a trial: behind its peers (median, halving), without progress (patience), or with no hope of
winning (extrapolation).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from loopty.domain.trial import Curve
from loopty.kit.records import Record
from loopty.kit.tables import Table, option


class MedianPruner(Table):
    """A trial at the median goes on; nothing is pruned without peers or during warm-up."""

    warmup_steps: float = option("Never prune before this step.", 0.0, minimum=0)
    startup_trials: int = option("Never prune before this many peers are complete.", 5, minimum=1)

    def prune_reason(self, curve: Curve, peers: Sequence[Curve]) -> str | None:
        step, value = curve.points[-1]
        if step < self.warmup_steps:
            return None
        at_step = [other for peer in peers if (other := peer.at(step)) is not None]
        if len(at_step) < self.startup_trials:
            return None
        median = statistics.median(at_step)
        if not curve.is_worse(value, median):
            return None
        return f"{value:g} at step {step:g} is worse than the median {median:g} of {len(at_step)} peers"


class HalvingPruner(Table):
    """The first rung is at step `first_rung`, each next one `factor` times later; one trial in `factor` passes."""

    first_rung: float = option("Step of the first rung.", 1.0, above=0)
    factor: int = option(
        "One in this many trials passes a rung; each rung comes this many times later.", 3, minimum=2
    )

    def prune_reason(self, curve: Curve, peers: Sequence[Curve]) -> str | None:
        step = curve.points[-1][0]
        rung = self._last_rung(step)
        if rung is None:
            return None
        value = curve.at(rung)
        others = [other for peer in peers if (other := peer.at(rung)) is not None]
        if value is None or len(others) + 1 < self.factor:
            return None
        better = sum(curve.is_worse(value, other) for other in others)
        places = max((len(others) + 1) // self.factor, 1)
        if better < places:
            return None
        return f"{better} of {len(others)} peers beat {value:g} at rung {rung:g}, where the best {places} go on"

    def _last_rung(self, step: float) -> float | None:
        """Return the last rung at or before the step."""
        if step < self.first_rung:
            return None
        rung = self.first_rung
        while rung * self.factor <= step:
            rung *= self.factor
        return rung


class PatiencePruner(Table):
    """Looks at the trial alone and stops it after `reports` reports without a better value."""

    reports: int = option("Stop after this many reports without an improvement.", 10, minimum=1)
    tolerance: float = option("An improvement must be larger than this.", 0.0, minimum=0)

    def prune_reason(self, curve: Curve, peers: Sequence[Curve]) -> str | None:  # noqa: ARG002
        best, since = curve.points[0][1], 0
        for _, value in curve.points[1:]:
            if curve.direction.sign * (value - best) > self.tolerance:
                best, since = value, 0
            else:
                since += 1
        if since < self.reports:
            return None
        return f"no improvement on {best:g} in the last {since} reports"


# A power law `a + b * step ** -c` is fitted to the curve so far. How far such a fit is off is not assumed but
# measured: each peer is continued from the same step in the same way, and the errors against where it really ended
# give the uncertainty of this prediction. Where curves do not follow the law, little is pruned.


_EXPONENTS = (0.25, 0.5, 1.0, 2.0)
_MAX_POINTS = 48
"""Points of a curve that the fit uses, spread evenly: a report must stay cheap."""
_MAX_PEERS = 32
"""Peers whose error is measured: the newest."""

Points = Sequence[tuple[float, float]]


class ExtrapolationPruner(Table):
    """Never prunes without enough peers that ran as far, nor on a few points."""

    confidence: float = option(
        "Stop a trial when it will end behind the best with at least this probability.", 0.95, above=0.5, below=1
    )
    startup_trials: int = option("Never prune before this many peers are complete.", 5, minimum=3)
    points: int = option("Never prune before this many reports.", 4, minimum=3)

    def prune_reason(self, curve: Curve, peers: Sequence[Curve]) -> str | None:
        step, sign = curve.points[-1][0], curve.direction.sign
        ends = [peer for peer in peers if peer.points[-1][0] > step]
        if len(curve.points) < self.points or len(ends) < self.startup_trials:
            return None
        last_step = statistics.median(peer.points[-1][0] for peer in ends)
        predicted = _predict(curve.points, last_step)
        errors = [error for peer in ends[-_MAX_PEERS:] if (error := self._error(peer, step)) is not None]
        if predicted is None or len(errors) < self.startup_trials:
            return None
        best = max((peer.points[-1][1] for peer in peers), key=lambda value: sign * value)
        margin = _t_quantile(self.confidence, len(errors) - 1) * statistics.stdev(errors)
        margin *= (1 + 1 / len(errors)) ** 0.5  # the error of this prediction, and that of the mean error
        hoped = sign * (predicted + statistics.fmean(errors)) + margin
        if hoped >= sign * best:
            return None
        return (
            f"{curve.points[-1][1]:g} at step {step:g} leads to about {predicted:.4g} at step {last_step:g}: with "
            f"{self.confidence:.0%} confidence no better than {sign * hoped:.4g}, and the best has {best:g}"
        )

    def _error(self, peer: Curve, step: float) -> float | None:
        """Return how much a peer's end differed from its prediction at this step; None if it had few points."""
        seen = [point for point in peer.points if point[0] <= step]
        predicted = _predict(seen, peer.points[-1][0]) if len(seen) >= self.points else None
        return None if predicted is None else peer.points[-1][1] - predicted


def _predict(points: Points, step: float) -> float | None:
    """Predict the value at a later step, by the power law that fits best; None if the steps say nothing."""
    used = points[:: -(-len(points) // _MAX_POINTS)]
    first = used[0][0]
    fits = (_fit([(at - first + 1.0, value) for at, value in used], exponent) for exponent in _EXPONENTS)
    known = [fit for fit in fits if fit]
    if not known:
        return None
    best = min(known, key=lambda fit: fit.residual)
    return best.level + best.slope * math.pow(step - first + 1.0, -best.exponent)


class _Fit(Record):
    level: float
    slope: float
    exponent: float
    residual: float


def _fit(points: Points, exponent: float) -> _Fit | None:
    """Fit `level + slope * step ** -exponent` by least squares."""
    steps, values = [math.pow(at, -exponent) for at, _ in points], [value for _, value in points]
    centre, mean = statistics.fmean(steps), statistics.fmean(values)
    spread = sum((at - centre) ** 2 for at in steps)
    if not spread:
        return None
    slope = sum((at - centre) * (value - mean) for at, value in zip(steps, values, strict=True)) / spread
    level = mean - slope * centre
    residual = sum((value - level - slope * at) ** 2 for at, value in zip(steps, values, strict=True))
    return _Fit(level, slope, exponent, residual)


def _t_quantile(probability: float, degrees: int) -> float:
    """Compute Student's t by the expansion of Cornish and Fisher: within 2 % from four degrees of freedom."""
    z = statistics.NormalDist().inv_cdf(probability)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
