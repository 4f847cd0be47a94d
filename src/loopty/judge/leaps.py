"""A gain that is too good to be true is held for a person to look at, where the candidate could have cheated."""

from __future__ import annotations

from dataclasses import replace

from loopty.domain.outcome import Integrity, Verdict
from loopty.domain.pool import Pool
from loopty.domain.proposal import BY_HAND
from loopty.record.history import History
from loopty.record.verdicts import Incumbents, NodeJudged, score_gain

_TIMES_THE_LARGEST = 10.0
_TIMES_THE_SCORE = 10.0


def hold_leap(history: History, ruling: NodeJudged) -> NodeJudged:
    """The ruling; or that the node is held, if it would become the best by a leap while its integrity is weak.

    A leap is a gain ten times as large as any before in this run, to a score ten times as high or as low. A node
    that only sets parameters cannot cheat; one that a person made, or that the verifier passed, was looked at.
    """
    node, run = history[ruling.node], history.runs[ruling.node.run]
    is_attempt = ruling.verdict is Verdict.KEPT and node.id.parent is not None and node.pool is Pool.ATTEMPT
    if not is_attempt or ruling.against is None or node.outcome is None:
        return ruling
    could_cheat = node.outcome.integrity is Integrity.WEAK and node.tree != history[run.root].tree
    if not could_cheat or node.operator == BY_HAND or (node.review and node.review.passed):
        return ruling
    largest, found = Incumbents.of(run, node.pool).largest_gain, score_gain(history, node, ruling.against)
    if found is None or not largest or found.amount <= _TIMES_THE_LARGEST * largest:
        return ruling
    if not _is_tenfold(found.score, found.older):
        return ruling
    why = (
        f"held: {found.amount / largest:.3g} times the largest gain so far, and the candidate could reach the "
        f"code that scored it; look at `loopty diff {node.id}`, then `loopty accept {node.id} --why TEXT`"
    )
    return replace(ruling, verdict=Verdict.HELD, reason=why)


def _is_tenfold(score: float, older: float) -> bool:
    if score * older <= 0:
        return True
    return max(score / older, older / score) >= _TIMES_THE_SCORE
