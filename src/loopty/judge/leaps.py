"""A gain that is too good to be true is held for a person to look at, where the candidate could have cheated."""

from __future__ import annotations

import math

from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.domain.proposal import BY_HAND
from loopty.kit.records import replace
from loopty.record.history import History
from loopty.record.verdicts import Incumbents, NodeJudged, ScoreGain, score_gain

_TIMES_THE_LARGEST = 10.0
_TIMES_THE_SCORE = 10.0
_TIMES_THE_BASELINE = 100.0
"""For the first gain of a run: a naive baseline honestly becomes ten or fifty times as fast in one step."""


def hold_leap(history: History, ruling: NodeJudged) -> NodeJudged:
    """The ruling; or that the node is held, if it would become the best by a leap while its integrity is weak.

    A leap is a gain ten times as large as any before in this run, to a score ten times as high or as low; or the
    first gain, to a score a hundred times as high or as low. A node that only sets parameters cannot cheat; one
    that a person made, or that the verifier passed, was looked at.
    """
    node, run = history[ruling.node], history.runs[ruling.node.run]
    is_attempt = ruling.verdict is Verdict.KEPT and node.id.parent is not None and node.pool is Pool.ATTEMPT
    if not is_attempt or ruling.against is None or node.outcome is None:
        return ruling
    could_cheat = bool(node.outcome.weakness) and node.tree != history[run.root].tree
    if not could_cheat or node.operator == BY_HAND or (node.review and node.review.passed):
        return ruling
    largest, found = Incumbents.of(run, node.pool).largest_gain, score_gain(history, node, ruling.against)
    if found is None or not (leap := _leap(found, largest)):
        return ruling
    why = (
        f"{leap}, and {node.outcome.weakness}; "
        f"look at `loopty diff {node.name}`, then `loopty accept {node.name} --why TEXT`"
    )
    return replace(ruling, verdict=Verdict.HELD, reason=why)


def _leap(found: ScoreGain, largest: float) -> str:
    """What makes this gain a leap; empty where it is none. `largest` is the largest gain so far, 0 without one."""
    times = _ratio(found)
    if not largest:
        # A baseline of zero, or of the other sign, has no scale to measure a first gain by.
        if not math.isfinite(times) or times < _TIMES_THE_BASELINE:
            return ""
        return f"the first gain, from {found.older:.4g} to {found.score:.4g}"
    if times < _TIMES_THE_SCORE or found.amount <= _TIMES_THE_LARGEST * largest:
        return ""
    return f"{found.amount / largest:.3g} times the largest gain so far"


def _ratio(found: ScoreGain) -> float:
    """How many times as high or as low the score is; infinite from zero or to another sign."""
    if found.score * found.older <= 0:
        return math.inf
    return max(found.score / found.older, found.older / found.score)
