"""Is the candidate better, or was it lucky? Sequential tests on pairs, the size of a gain, its shrinkage.

An estimate that is only stated where it exceeds about 1.85 standard errors is too high on average. The stated gain
is the one under which such an estimate would be expected, given that it was stated: small gains shrink by a half,
gains of three times the noise not at all. docs/research/judge.md has the figures.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from loopty.kit.records import Record

# Fitted on simulated decisions; the bet has no such threshold of its own, but acts like one.
_STATED_ABOVE = 1.85
_STEPS = 40


def shrunk_gain(gain: float, standard_error: float) -> float:
    """Return the gain without the luck of having been selected; at least 0."""
    if standard_error <= 0 or gain <= 0:
        return max(gain, 0.0)
    observed = gain / standard_error
    low, high = 0.0, observed
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _expectation_if_stated(middle) < observed else (low, middle)
    return low * standard_error


def _expectation_if_stated(true: float) -> float:
    """Compute the mean of those draws of a normal variable around `true` that exceed the threshold."""
    beyond = _STATED_ABOVE - true
    tail = math.erfc(beyond / math.sqrt(2)) / 2
    return true + math.exp(-beyond * beyond / 2) / math.sqrt(2 * math.pi) / tail


# A sequential test on interleaved pairs of measurements.
#
# Candidate and incumbent are measured in turns; each pair gives a gain. If the candidate is no better, the sign of
# each gain is a fair coin, whatever its size. So we bet on the signs, starting with a wealth of 1: each pair
# stakes a share of it on "the candidate wins"; the share depends on the size of the gain, never on its sign.
# Against fair coins no betting system reaches 1/error_rate with a probability above error_rate, however often one
# looks (Ville's inequality). The noise measured beforehand only sets the stakes: a wrong value costs measurements,
# never validity. docs/judge.md has the reasons, the assumptions and the measured error rates.


# With Gaussian noise s, the share tanh(m·|gain| / 2s²) grows fastest when the candidate is better by m; here m is
# 1.5 s. Smaller gains need more pairs than anybody pays for; larger ones win with any boldness.
_BOLDNESS = 0.75
# One outlier against a good candidate must not ruin it, and at 0.05 five wins in a row must still suffice.
_MOST_AT_STAKE = 0.93
# The share of the error rate that clear gains may use up; the bet has the rest.
_CLEAR_SHARE = 0.25
# When to give up, in units of the noise. Chosen by whole simulated nights: it saves most on candidates that are no
# better, and loses few good ones (docs/research/judge.md).
_WORTH_FINDING = 1.5
_GIVE_UP_BELOW = 0.5
_OUTLIER = 3.0
# How many measurements after another one count as soon after it.
_NEIGHBOURS = 3
# The median difference of two draws from a normal distribution, in standard deviations.
_MEDIAN_DIFFERENCE = 0.9538725524


class Evidence(Record):
    """The evidence of the pairs so far: keep, stop, or measure another pair."""

    pairs: int
    effect: float
    """The median gain in the metric's unit, which tolerates an outlier."""
    stated: float
    """The effect as it is stated: of a bet that is won, without the luck of having been selected."""
    wealth: float
    better: bool
    """The gain is clear, or the bet is won: keep."""
    futile: bool
    """The gains are twice as likely without an effect as with one that is worth finding: stop."""
    exhausted: bool
    """The remaining pairs could not win the bet even if all went well: stop."""
    refuted: bool
    """The bet on "the gain is not worth finding" is won: it is no better. All else is undecided, or worse."""


def evidence(
    gains: Sequence[float], sigma: float, error_rate: float, most_pairs: int, repeats: Sequence[float] = ()
) -> Evidence:
    """Weigh the gains of the pairs in order; `sigma` is the noise of one measurement, 0 if none was seen.

    `repeats` are the differences between neighbouring measurements of the same code, in the unit of the gains.
    """
    bound = _bound(error_rate)
    wealth = _wealth(gains, sigma, bound)
    better = wealth >= bound or is_clear(gains, repeats, error_rate)
    middle = median(gains)
    in_reach = wealth * (1 + _MOST_AT_STAKE) ** max(0, most_pairs - len(gains)) > bound
    too_little = [_WORTH_FINDING * sigma - gain for gain in gains]
    stated = shrunk_gain(middle, sigma * math.sqrt(2 / len(gains))) if better else middle
    return Evidence(
        pairs=len(gains),
        effect=middle,
        stated=stated,
        wealth=wealth,
        better=better,
        futile=not better and is_futile(gains, sigma),
        exhausted=not (better or in_reach),
        refuted=not better and _wealth(too_little, sigma, bound) >= bound,
    )


def can_win(error_rate: float, most_pairs: int) -> bool:
    """Say whether this many pairs could win the bet at all."""
    return (1 + _MOST_AT_STAKE) ** most_pairs >= _bound(error_rate)


def is_clear(gains: Sequence[float], repeats: Sequence[float], error_rate: float) -> bool:
    """Say whether each gain exceeds all differences that measurements of the same code have shown.

    If the candidate is no better, its n pairs and m such differences are of one kind: that the pairs are the n
    largest has a chance of 1 in C(n + m, n), whatever the noise looks like; that a coin gives all of them the
    right sign, one of 1 in 2**n. Neighbouring differences share a measurement, so only every other one counts.
    """
    pairs, independent = len(gains), len(repeats) // 2
    luck = 0.5**pairs / math.comb(pairs + independent, pairs)
    return luck <= _CLEAR_SHARE * error_rate and min(gains) > max(repeats, default=math.inf)


def chance_of_wins(won: int, lost: int) -> float:
    """Compute how surprising these wins and losses are if each was a fair coin, however often one has looked.

    It is 1 / wealth of a bettor who spreads the first stake evenly over all shares of wins from 0 to 1. By Ville's
    inequality, coins ever bring it down to p with a probability of at most p.
    """
    count = won + lost
    return min((count + 1) * math.comb(count, won) / (1 << count), 1.0)


def _bound(error_rate: float) -> float:
    """Compute the wealth that wins the bet."""
    return 1 / (error_rate * (1 - _CLEAR_SHARE))


def median(values: Sequence[float]) -> float:
    """Compute the median. Our own, as importing `statistics` would double the start time of a reading verb."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else ordered[half - 1] / 2 + ordered[half] / 2


def noise_floor(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Compute a robust standard deviation of each metric over repeated measurements; 0 if all are equal."""
    names = [name for name in (samples[0] if samples else ()) if all(name in sample for sample in samples)]
    return {name: _spread([sample[name] for sample in samples]) for name in names}


def _wealth(gains: Sequence[float], sigma: float, bound: float) -> float:
    """Compute the wealth after these gains, or the bound once it is reached."""
    wealth = 1.0
    noise = max(sigma, math.ulp(0.0))  # Without noise every difference counts in full.
    for gain in gains:
        share = min(_MOST_AT_STAKE, math.tanh(_BOLDNESS * abs(gain) / noise))
        if gain > 0:
            wealth *= 1 + share
            if wealth > bound:
                return bound
        else:
            # Never stake more than what would win the bet.
            wealth -= min(wealth * share, bound - wealth)
    return wealth


def is_futile(gains: Sequence[float], sigma: float) -> bool:
    """Say whether the gains are so much likelier without an effect that further pairs are not worth their cost."""
    return _odds_of_a_gain(gains, sigma) < _GIVE_UP_BELOW


def _odds_of_a_gain(gains: Sequence[float], sigma: float) -> float:
    """Compute how many times as likely these gains are with an effect worth finding as with none.

    The bet looks at the signs, given the sizes; here the sizes count, too: several small gains say that there is
    no large one. It assumes Gaussian noise, but only decides when to give up: the error rate needs no such thing.
    """
    noise = max(sigma, math.ulp(0.0))
    total = math.fsum(max(-_OUTLIER, min(gain / noise, _OUTLIER)) for gain in gains)
    return math.exp(_WORTH_FINDING / 2 * (total - len(gains) * _WORTH_FINDING / 2))


def _spread(values: Sequence[float]) -> float:
    """Compute the spread of values that were measured soon after each other: a machine changes during a night."""
    differences = [
        abs(one - other)
        for place, one in enumerate(values)
        for other in values[place + 1 : place + 1 + _NEIGHBOURS]
    ]
    if not any(differences):
        return 0.0
    # Coarse values: where most differences are zero, the median says nothing about the rest.
    return (median(differences) or math.fsum(differences) / len(differences)) / _MEDIAN_DIFFERENCE


# The estimate is the median of the means of all two pairs (Hodges and Lehmann), the interval the one that
# Wilcoxon's signed ranks do not exclude: both assume that gains lie symmetrically around the true one, which a
# coin for the order within pairs brings about, and nothing about their shape.


LEVEL = 0.95
FEWEST_PAIRS = 3
"""With fewer pairs there is no interval."""
_STUDENT = {3: 9.92, 4: 5.84, 5: 4.60}
"""Of so few pairs signed ranks say nothing: Student's t instead, at 99 % because it assumes Gaussian noise."""
_TOLD_WITHIN = 0.1


class PairedEstimate(Record):
    """A gain with its interval."""

    amount: float
    low: float
    high: float
    pairs: int


def paired_estimate(gains: Sequence[float]) -> PairedEstimate | None:
    """Estimate the gain that these pairs show; None with too few of them."""
    count = len(gains)
    if count < FEWEST_PAIRS:
        return None
    means = sorted(one / 2 + other / 2 for place, one in enumerate(gains) for other in gains[place:])
    if count in _STUDENT:
        middle = math.fsum(gains) / count
        spread = math.sqrt(math.fsum((gain - middle) ** 2 for gain in gains) / (count - 1))
        half = _STUDENT[count] * spread / math.sqrt(count)
        return PairedEstimate(middle, middle - half, middle + half, count)
    excluded = _ranks_to_leave_out(count)
    return PairedEstimate(median(means), means[excluded], means[-1 - excluded], count)


RUNS_FOR_TAILS = 59
"""So many runs show what happens in one of twenty, in 95 of 100 cases."""
_RESAMPLES = 1_000


def resampled_estimate(
    mine: Sequence[float], theirs: Sequence[float], gain: Callable[[Sequence[float], Sequence[float]], float]
) -> PairedEstimate:
    """Estimate the gain in a statistic of all runs, with its interval by resampling them."""
    count = len(mine)
    rng = random.Random(count)
    gains = sorted(gain(rng.choices(mine, k=count), rng.choices(theirs, k=count)) for _ in range(_RESAMPLES))
    outside = round(_RESAMPLES * (1 - LEVEL) / 2)
    return PairedEstimate(gain(mine, theirs), gains[outside], gains[-1 - outside], count)


def is_told(found: PairedEstimate | None) -> bool:
    """Say whether the gain is so large against its interval that further pairs would say the same."""
    return found is not None and found.high - found.low <= _TOLD_WITHIN * abs(found.amount)


def _ranks_to_leave_out(pairs: int) -> int:
    """Count how many of the smallest, and of the largest, means lie outside of the interval."""
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
