"""The first look at a candidate: does one measurement make it worth comparing with the incumbent in pairs?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from loopty.domain.evidence import median, noise_floor
from loopty.domain.objective import Gain, Metrics, gain
from loopty.domain.outcome import Verdict
from loopty.judge.pairs import MAX_FAULTS, MeasureAgain, Rules, coin, noise_of
from loopty.record.node_record import Node, Result
from loopty.record.verdicts import NodeJudged

# Chosen by whole simulated nights (docs/research/judge.md).
_LOOKS_PER_REFRESH = 4
"""The incumbent is measured again before this many candidates in a row are discarded at the first look."""
_SHIFTED = 3.0
"""The machine has changed if the newest measurement differs from the record by this many times the noise."""
_MOST_REFRESHES = 3
"""Enough to turn the median of the newest five."""
_DIGITS = range(6, 10)
"""Significant digits of a score in a reason, as many as tell two apart; more cannot be read."""


def judge_first_result(
    node: Node, rival: Node, result: Result, known_noise: Mapping[str, float], rules: Rules
) -> NodeJudged | MeasureAgain:
    """Discard if worse. Repeat if better: the node alone if nothing varies, else in pairs with the incumbent.

    `result` is that of the incumbent, `rival`. Before it discards, it makes sure that the record is of today.
    """
    assert node.outcome is not None
    incumbent, mine, theirs = rival.id, node.outcome.metrics, result.outcome.metrics
    difference = gain(mine, theirs, rules.metrics)
    if node.fresh_rival:
        fresh = {**theirs, **_medians(node.fresh_rival)}
        over_fresh = gain(mine, fresh, rules.metrics)
        if over_fresh.amount > difference.amount:
            difference, theirs = over_fresh, fresh
    reason = _comparison(difference, mine, theirs, rival.name)
    noise = _largest_noise(known_noise, node.samples, result.samples)
    sigma = noise_of(difference, rules.metrics, noise)
    if difference.amount <= max(sigma * _bar(node, rules), 0.0):
        if rules.repeats and rules.affordable and _is_stale(node, rival, result, noise, rules):
            return MeasureAgain(incumbent)
        if difference.amount > 0:
            reason += f", which is less than {_bar(node, rules):g} times the noise"
        return NodeJudged(node.id, Verdict.DISCARDED, reason, incumbent)
    if not rules.repeats:
        return NodeJudged(node.id, Verdict.KEPT, reason, incumbent)
    varies = sigma > 0
    if not varies and len(node.samples) >= _equal_results_needed(rules):
        return NodeJudged(node.id, Verdict.KEPT, reason, incumbent)
    if not rules.affordable:
        why = f"{reason}; no repeat measurement is left to confirm it"
        return NodeJudged(node.id, Verdict.INCONCLUSIVE, why, incumbent)
    if not varies:
        return MeasureAgain(node.id)  # the benchmark does not vary, but the candidate may draw random numbers
    own_turn = node.pairing or (node.fresh_rival and coin(rules.secret, node.id, incumbent, 1))
    return MeasureAgain(node.id if own_turn else incumbent, incumbent)


def _equal_results_needed(rules: Rules) -> int:
    """How often a candidate must give its result where the benchmark does not vary.

    A candidate that tosses coins, and is no better in half of its runs, gives so many equal results with at most
    the error rate. After m keeps that never varied, at most 3/m of the candidates toss coins (at 95 %).
    """
    tossers = min(1.0, 3 / rules.steady_keeps) if rules.steady_keeps else 1.0
    return max(math.ceil(math.log2(tossers / rules.noise.error_rate)), 2)


def _bar(node: Node, rules: Rules) -> float:
    """How many times the noise a first result must gain to be worth pairs."""
    return (rules.noise.first_look or 0.0) if rules.repeats and not node.pairing else 0.0


def _is_stale(node: Node, rival: Node, result: Result, noise: Mapping[str, float], rules: Rules) -> bool:
    """Whether the incumbent's record may be of a machine that has changed since.

    The incumbent is measured again after several candidates in a row that lost to its record, and until its newest
    measurement agrees with that.
    """
    if rival.faults_in_row >= MAX_FAULTS or len(node.fresh_rival) >= _MOST_REFRESHES:
        return False
    newest = gain(result.samples[-1], result.outcome.metrics, rules.metrics) if result.samples else Gain(0.0, None)
    sigma = noise_of(newest, rules.metrics, noise)
    if not any(noise.values()):
        return False
    is_due = not node.fresh_rival and rival.first_looks_lost >= _LOOKS_PER_REFRESH - 1
    return is_due or abs(newest.amount) > _SHIFTED * sigma


def _medians(samples: Sequence[Metrics]) -> dict[str, float]:
    return {name: median([sample[name] for sample in samples]) for name in samples[0]}


def _largest_noise(known: Mapping[str, float], *samples: Sequence[Metrics]) -> dict[str, float]:
    """The largest noise seen for each metric: a candidate may add some to a benchmark that had none.

    It decides whether to compare in pairs, never how to bet on them: bets must not depend on the pairs' results.
    """
    observed = [known, *map(noise_floor, samples)]
    return {name: max(one.get(name, 0.0) for one in observed) for name in {**observed[1], **known}}


def _comparison(difference: Gain, mine: Metrics, theirs: Metrics, incumbent: str) -> str:
    word = "better" if difference.amount > 0 else "worse" if difference.amount < 0 else "no better"
    if difference.metric is None:
        return f"{word}: the weighted sum by {difference.amount:.6g} of {incumbent}"
    name = difference.metric.name
    left, right = _texts_apart(mine[name], theirs[name])
    if left == right and difference.amount:
        return f"{word}: {name} {left} ({abs(difference.amount):.2g} {word} than {incumbent})"
    return f"{word}: {name} {left} against {right} of {incumbent}"


def _texts_apart(left: float, right: float) -> tuple[str, str]:
    """Both numbers in the fewest digits, six or more, that tell them apart; in six where nine do not."""
    digits = next((count for count in _DIGITS if f"{left:.{count}g}" != f"{right:.{count}g}"), _DIGITS[0])
    return f"{left:.{digits}g}", f"{right:.{digits}g}"
