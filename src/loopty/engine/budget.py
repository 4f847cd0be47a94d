"""What a run may still spend on trials. A trial is charged when it starts and refunded when it is cancelled."""

from __future__ import annotations

from loopty.domain.objective import score_metric
from loopty.domain.pool import Pool
from loopty.domain.task import Pools
from loopty.record.budgets import pools_in_force
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.proposals import Proposals
from loopty.record.run_record import Run
from loopty.record.sessions import Session
from loopty.record.trials import TrialCounts
from loopty.record.tunings import Tunings
from loopty.record.verdicts import Incumbents

MAX_REFUSED_IN_ROW = 50
MAX_FRUITLESS_CALLS = 40
"""Lower, because model calls cost money."""


def trial_refusal(run: Run, pools: Pools, pool: Pool, promised: int = 0) -> str | None:
    """Why no further trial of this pool may start, or None. Running ones and promises to nodes count, too."""
    limit = pools_in_force(run, pools).limit(pool)
    promised += len(Tunings.of(run, pool).open)
    if limit is not None and TrialCounts.of(run, pool).started + promised >= limit:
        return f"all {limit} {pool} trials are spent"
    return None


def fruitless_reason(run: Run, pool: Pool) -> str | None:
    """Why this session need not ask the pool's proposer again, or None."""
    proposals = Proposals.of(run, pool)
    if proposals.refused_in_row < MAX_REFUSED_IN_ROW and proposals.fruitless_calls < MAX_FRUITLESS_CALLS:
        return None
    calls = f" after {proposals.fruitless_calls} model calls" if proposals.fruitless_calls else ""
    return (
        f"the last {proposals.refused_in_row} proposals were refused{calls}, the last one because: "
        f"{proposals.last_refusal}; is there anything left to try?"
    )


def target_reason(history: History, run: Run, pools: Pools) -> str | None:
    """How the target was reached, as a sentence; None when it was not."""
    target, best = pools.target, Incumbents.of(run, Pool.ATTEMPT).best
    result = history[best].result(Cohorts.of(run).fingerprint) if best else None
    if target is None or best is None or result is None or not (metrics := history.metrics(history[best])):
        return None
    metric = score_metric(metrics)
    score = result.outcome.metrics.get(metric.name)
    if score is None or metric.direction.sign * (score - target) < 0:
        return None
    return f"{history.name(best)} reached the target of {target:g} with {score:g}"


def session_seconds(run: Run, now: float) -> float:
    """The time spent on the run in all sessions, the present one up to now; a pause does not count."""
    session = Session.of(run)
    return session.seconds if session.is_paused else session.seconds_before + now - session.since
