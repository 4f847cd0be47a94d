"""A gain too good to be true is held: nothing builds on it before somebody has looked at it.

A forged score knows no limit; an honest one does. No change makes a program faster than the time that its editable
part takes (Amdahl), and gains of an order of magnitude are rare after the first one.
"""

from __future__ import annotations

import math

from loopty.domain.objective import Direction, score_metric, seconds_of_unit
from loopty.domain.proposal import BY_HAND
from loopty.domain.trial import Pool, Verdict
from loopty.kit.records import replace
from loopty.record.history import History
from loopty.record.node_record import Node, recent_noise
from loopty.record.trials import Cohorts
from loopty.record.verdicts import Incumbents, NodeJudged, ScoreGain, score_gain

_TIMES_THE_LARGEST = 10.0
_TIMES_THE_SCORE = 10.0
_TIMES_THE_NOISE = 3.0
_RESOLUTION_SECONDS = 1e-9
"""No clock shows less."""


def hold_leap(history: History, ruling: NodeJudged, editable_share: float | None = None) -> NodeJudged:
    """Hold the node if it would become the best by a leap; else keep the ruling.

    A node that only sets parameters cannot cheat; one that a person made, or that the verifier passed, was seen.
    """
    node, run = history[ruling.node], history.runs[ruling.node.run]
    is_attempt = ruling.verdict is Verdict.KEPT and node.id.parent is not None and node.pool is Pool.ATTEMPT
    if not is_attempt or ruling.against is None or node.outcome is None:
        return ruling
    was_seen = node.operator == BY_HAND or (node.review and node.review.passed)
    if was_seen or node.tree == history[run.root].tree:
        return ruling
    weakness = node.outcome.weakness
    leap = _impossible(history, node) or (weakness and _leap(history, node, ruling, editable_share))
    if not leap:
        return ruling
    why = (
        f"{leap}{f', and {weakness}' if weakness else ''}; "
        f"look at `loopty diff {node.name}`, then `loopty node approve {node.name} --why TEXT`"
    )
    return replace(ruling, verdict=Verdict.HELD, reason=why)


def _impossible(history: History, node: Node) -> str:
    """Tell why no program has this score, or ""."""
    assert node.outcome is not None
    metric = score_metric(history.metrics(node))
    score = node.outcome.metrics.get(metric.name)
    if score is None or metric.direction is not Direction.MIN:
        return ""
    if score == 0:
        return f"{metric.name} is 0"
    unit = seconds_of_unit(metric.name)
    if unit and abs(score) * unit < _RESOLUTION_SECONDS:
        return f"{metric.name} {score:.3g} is less than a clock can show"
    return ""


def _leap(history: History, node: Node, ruling: NodeJudged, editable_share: float | None) -> str:
    """Tell what makes this gain a leap, or ""."""
    assert ruling.against is not None
    run = history.runs[node.id.run]
    found, over_root = score_gain(history, node, ruling.against), score_gain(history, node, run.root)
    if found is None or over_root is None:
        return ""
    sure = 1 + _TIMES_THE_NOISE * _relative_noise(history, node, ruling)
    total = _ratio(over_root)
    if editable_share is not None and math.isfinite(total) and total / sure * (1 - editable_share) > 1:
        return f"{total:.3g} times the baseline, of whose time only {100 * editable_share:.3g} % is editable"
    largest, times = Incumbents.of(run, node.pool).largest_gain, _ratio(found) / sure
    if not largest:
        # A baseline of zero, or of the other sign, has no scale to measure a first gain by.
        is_leap = math.isfinite(times) and times >= _TIMES_THE_SCORE
        return f"the first gain, from {found.older:.4g} to {found.score:.4g}" if is_leap else ""
    if times < _TIMES_THE_SCORE or found.amount <= _TIMES_THE_LARGEST * largest:
        return ""
    return f"{found.amount / largest:.3g} times the largest gain so far"


def _relative_noise(history: History, node: Node, ruling: NodeJudged) -> float:
    """Compute the noise of one measurement of what was beaten, as a share of its score."""
    assert node.outcome is not None
    assert ruling.against is not None
    fingerprint, name = node.outcome.fingerprint, score_metric(history.metrics(node)).name
    result = history[ruling.against].result(fingerprint)
    known = Cohorts.of(history.runs[node.id.run]).noise.get(fingerprint, {})
    score = result.outcome.metrics.get(name) if result else None
    return recent_noise(result, known).get(name, 0.0) / abs(score) if result and score else 0.0


def _ratio(found: ScoreGain) -> float:
    """Compute how many times as high or as low the score is; infinite from zero or to another sign."""
    if found.score * found.older <= 0:
        return math.inf
    return max(found.score / found.older, found.older / found.score)
