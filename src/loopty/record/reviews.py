"""The family of reviews: what the verifier said about winners. A review is a trial that measures nothing."""

from __future__ import annotations

from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import replace
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.node_record import Review
from loopty.record.run_record import PoolPart
from loopty.record.trials import TrialEnded, Trials, trial_name
from loopty.record.verdicts import NodeJudged


class Reviews(PoolPart):
    """What the reviews of a pool's winners led to."""

    rejected_by_verifier: int = 0
    """Winners by the metric that the verifier rejected."""


def _end(state: FoldState, event: TrialEnded, _at: float) -> None:
    """Note the verifier's answer. The node did not run: its measurements stay, a loss says nothing about it."""
    trial = Trials.of(state.runs[event.node.run]).running[trial_name(event.node, event.number)]
    if trial.pool is not Pool.REVIEW:
        return
    node, outcome = state[event.node], event.outcome
    if outcome.ending is not Ending.CANCELLED:
        passed = {Ending.FINISHED: True, Ending.REFUSED: False}.get(outcome.ending)
        node = replace(node, review=Review(passed, outcome.reason))
    state.put(replace(node, running=False))


def _judge(state: FoldState, event: NodeJudged, _at: float) -> None:
    node, run = state[event.node], state.runs[event.node.run]
    if event.verdict is Verdict.REJECTED and node.review and node.review.passed is False:
        rejected = Reviews.of(run, node.pool).rejected_by_verifier + 1
        state.put_run(run.with_pool_part(node.pool, Reviews(rejected)))


FAMILY = Family((), {TrialEnded: _end, NodeJudged: _judge})
