"""What a run does now: its phase and trials, what each pool has spent, its workers and their slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from loopty.domain.ids import NodeId
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Pool
from loopty.judge.revisions import pairs_to_confirm
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.node_record import ENOUGH_TO_VARY, Pairing
from loopty.record.nodes import Proposals
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts, RunningTrial, TrialCounts, Trials, trial_parts
from loopty.record.verdicts import Confirmation, Incumbents
from loopty.record.workers import Workers, worker_name_on


class PhaseName(StrEnum):
    BASELINE = "baseline"
    CONFIRMATION = "confirmation"


class RunPhase(Record):
    """A phase with a known number of steps."""

    name: PhaseName
    step: int
    """The measurement or pair under way, from 1."""
    steps: int | None
    """How many there will be, as far as it is known; None without the task."""


def run_phase(history: History, run: Run, noise: Noise | None) -> RunPhase | None:
    """Return the phase of a run; None while it searches, and if nothing runs."""
    running = Trials.of(run).running.values()
    confirms = next((trial.subject for trial in running if trial.pool is Pool.CONFIRM and trial.subject), None)
    if confirms:
        pairing = Confirmation.of(run).pairing
        done = len(pairing.pairs_so_far) if pairing and Confirmation.of(run).node == confirms else 0
        most = max(pairs_to_confirm(run, noise), done + 1) if noise else None
        return RunPhase(PhaseName.CONFIRMATION, done + 1, most)
    root = history[run.root]
    if root.verdict is not None or not running:
        return None
    done = len(root.samples)
    steps = None
    if noise:
        steps = 1 if noise.repeat == "never" else ENOUGH_TO_VARY
    return RunPhase(PhaseName.BASELINE, done + 1, steps)


class Repeat(Record):
    """The purpose of a repeated measurement."""

    subject: NodeId
    rival: NodeId | None
    """The incumbent that the subject is measured against, in turns; None if it is measured alone."""
    number: int
    """The number of the pair, or of the measurement if there is no incumbent."""
    subject_handle: int = 0
    rival_handle: int = 0


class RunningTrialRow(Record):
    """A running trial."""

    node: NodeId
    number: int
    pool: Pool
    age_seconds: float
    repeat: Repeat | None
    handle: int = 0


def running_trials(history: History, run: Run, now: float) -> tuple[RunningTrialRow, ...]:
    """List the running trials in the order of the nodes they serve."""
    return tuple(_running_trial(history, name, trial, now) for name, trial in _trials_in_order(history, run))


def _trials_in_order(history: History, run: Run) -> list[tuple[str, RunningTrial]]:
    """Sort running trials by the node they serve; it keeps its place while it and the incumbent take turns."""
    return sorted(
        Trials.of(run).running.items(), key=lambda item: history[item[1].subject or trial_parts(item[0])[0]].order
    )


def _running_trial(history: History, name: str, trial: RunningTrial, now: float) -> RunningTrialRow:
    node, number = trial_parts(name)
    age, repeat = max(now - trial.since, 0.0), _repeat(history, trial)
    return RunningTrialRow(node, number, trial.pool, age, repeat, history.handle(node))


def _repeat(history: History, trial: RunningTrial) -> Repeat | None:
    if trial.subject is None or trial.pool is Pool.REVIEW:
        return None
    node, pairing = history[trial.subject], history[trial.subject].pairing
    if trial.pool is Pool.CONFIRM:
        known = Confirmation.of(history.runs[node.id.run])
        pairing = (known.pairing if known.node == node.id else None) or Pairing(history.runs[node.id.run].root)
    if pairing is None:
        return Repeat(node.id, None, len(node.samples) + 1, node.handle)
    incumbent = pairing.incumbent
    return Repeat(node.id, incumbent, len(pairing.pairs_so_far) + 1, node.handle, history.handle(incumbent))


class PoolCount(Record):
    """What one pool has spent, without the baseline."""

    pool: Pool
    started: int
    """Trials that ended or are running; cancelled ones are refunded."""
    limit: int | None
    endings: Mapping[str, int]
    refused: int
    last_refusal: str = ""
    """Why the newest of the refused ones got no trial."""


class Remaining(Record):
    """The rest of the budget; None means no limit."""

    attempts: int
    wall_seconds: float | None
    tokens: int | None
    money_usd: float | None
    tunes: int | None = None


def pools_in_use(run: Run, pools: Pools | None) -> list[Pool]:
    """List attempts, and every other pool that has trials or a budget."""
    return [pool for pool in Pool if pool is Pool.ATTEMPT or _is_in_use(run, pool, pools)]


def _is_in_use(run: Run, pool: Pool, pools: Pools | None) -> bool:
    if pool is Pool.REVIEW:  # `verified` reports it: the endings of reviews are not endings of trials
        return False
    counts, refused = TrialCounts.of(run, pool), Proposals.of(run, pool).refused
    planned = pool is Pool.CONTROL and pools is not None and pools.control > 0
    observed = not pool.rules.judging and bool(counts.endings)
    return planned or counts.started > 0 or refused > 0 or observed


def pool_count(history: History, run: Run, pool: Pool, pools: Pools | None) -> PoolCount:
    is_charged = pool.rules.judging or bool(pool.rules.limit)
    started = TrialCounts.of(run, pool).started if is_charged else _observing_trials(run, pool)
    limit = pools.limit(pool) if pools else None
    proposals = Proposals.of(run, pool)
    endings = _endings(history, run, pool)
    return PoolCount(pool, started, limit, endings, proposals.refused, proposals.last_refusal)


def _observing_trials(run: Run, pool: Pool) -> int:
    """Count the observing trials, including those of the baseline."""
    ended = sum(count for ending, count in TrialCounts.of(run, pool).endings.items() if ending != Ending.CANCELLED)
    return ended + sum(trial.pool is pool for trial in Trials.of(run).running.values())


def _endings(history: History, run: Run, pool: Pool) -> dict[str, int]:
    """Count how the pool's trials ended, most frequent first."""
    endings = Counter(TrialCounts.of(run, pool).endings)
    baseline = history[run.root].outcome
    if pool is Pool.ATTEMPT and baseline:
        endings[baseline.ending] -= 1
    return {ending: count for ending, count in endings.most_common() if count > 0}


def remaining_budget(run: Run, pools: Pools, seconds: float) -> Remaining:
    wall, tokens, money, tunes = pools.wall_seconds, pools.tokens, pools.money_usd, pools.tunes
    return Remaining(
        max(pools.attempts - TrialCounts.of(run, Pool.ATTEMPT).started, 0),
        None if wall is None else max(wall - seconds, 0.0),
        None if tokens is None else max(tokens - Spend.of(run).total_tokens, 0),
        None if money is None else max(money - Spend.of(run).total_money_usd, 0.0),
        None if tunes is None else max(tunes - TrialCounts.of(run, Pool.TUNE).started, 0),
    )


class WorkerRow(Record):
    """One worker."""

    name: str
    host: str
    fingerprint: str
    cohort: str
    """`present`: its results are compared with the best node's; `other`: with those of its own kind of machine;
    `closed`: the incumbent is not measured there yet."""
    sandbox: str
    trial: str
    """The trial that it holds by a lease; empty where it waits."""
    lease_seconds: float
    """For how long it has held that."""
    trials: int
    drift: str = ""
    """How what it measures has changed since it joined."""


def worker_rows(run: Run, now: float) -> tuple[WorkerRow, ...]:
    """List the workers that are there now, in the order in which they joined."""
    return tuple(
        WorkerRow(
            name=name,
            host=member.host,
            fingerprint=member.fingerprint,
            cohort=_cohort(run, member.fingerprint),
            sandbox=member.sandbox,
            trial=member.trial,
            lease_seconds=max(0.0, now - member.leased_at) if member.trial else 0.0,
            trials=member.trials,
            drift=member.drift,
        )
        for name, member in Workers.of(run).members.items()
    )


def _cohort(run: Run, fingerprint: str) -> str:
    if fingerprint == Cohorts.of(run).fingerprint:
        return "present"
    return "other" if fingerprint in Incumbents.of(run, Pool.ATTEMPT).by_fingerprint else "closed"


class WorkerSlots(Record):
    """The slots of a session with workers."""

    workers: int
    ranked: int
    """Those whose machine the incumbent was measured on: they get trials of the search."""
    trials: int
    """How many trials of the search run at once."""
    bound: str
    """`width`: what the user said; `workers`: how many of them are ranked."""


def worker_slots(rows: Sequence[WorkerRow], stated_width: int | None) -> WorkerSlots | None:
    """Return the slots of these workers; None if there are none."""
    if not rows:
        return None
    ranked = sum(row.cohort != "closed" for row in rows)
    is_bound = stated_width is not None and stated_width < ranked
    trials = stated_width if is_bound and stated_width else max(ranked, 1)
    return WorkerSlots(len(rows), ranked, trials, "width" if is_bound else "workers")


class ClusterRow(Record):
    """One node."""

    cluster: str
    """The entry of `[executor] hosts` that names its cluster."""
    node: str
    name: str
    address: str
    resources: Mapping[str, float]
    workers: int
    busy: int
    """Of these workers, those that hold a trial."""


def cluster_rows(run: Run) -> tuple[ClusterRow, ...]:
    """List the nodes that are there now."""
    workers = Workers.of(run)
    rows = []
    for cluster, nodes in workers.clusters.items():
        for node in nodes:
            start = f"{worker_name_on(node.id)}/"
            there = [member for name, member in workers.members.items() if name.startswith(start)]
            busy = sum(bool(member.trial) for member in there)
            facts = (node.name, node.address, node.resources)
            rows.append(ClusterRow(cluster, node.id, *facts, len(there), busy))
    return tuple(rows)
