"""The status of a run. O(pools and running trials), however long the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from loopty.domain.ids import NodeId
from loopty.domain.model import Role
from loopty.domain.objective import Direction, Metric
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import BUDGETED_POOLS, Ending, Pool, Verdict
from loopty.engine.budget import session_seconds
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.directives import AuditAnchors
from loopty.record.history import History
from loopty.record.node_record import NOISE_SAMPLES, Node, recent_noise
from loopty.record.run_record import Run
from loopty.record.search_summary import FrozenPool, LadderState, SearchSummary
from loopty.record.sessions import Session, pools_in_force
from loopty.record.trials import Cohorts, TrialCounts, Trials
from loopty.record.verdicts import Incumbents, score_gain
from loopty.record.workers import Workers
from loopty.show.agents import AgentRow, agent_rows
from loopty.show.comparisons import (
    SIGMAS,
    AgainstBaseline,
    ScoreChange,
    against_baseline,
    machine_description,
    percent_of,
    run_metric,
    score_change,
    sigma,
)
from loopty.show.running import (
    ClusterRow,
    PhaseName,
    PoolCount,
    Remaining,
    RunningTrialRow,
    RunPhase,
    WorkerRow,
    WorkerSlots,
    cluster_rows,
    pool_count,
    pools_in_use,
    remaining_budget,
    run_phase,
    running_trials,
    worker_rows,
    worker_slots,
)
from loopty.show.stages import SliceValue, StageCost, slice_value, stage_costs
from loopty.show.tally import VerifierTotals, verifier_totals


def version_lead(history: History, run: Run) -> str:
    """Name in a sentence the past version that the best node does not beat; empty if it beats all."""
    best, version = (Incumbents.of(run, pool).best for pool in (Pool.ATTEMPT, Pool.VERSION))
    if best is None or version is None or version == run.root:
        return ""
    gain = score_gain(history, history[version], best)
    if gain is None or gain.amount < 0:
        return ""
    word = "worse than" if gain.amount > 0 else "no better than"
    scores = f"{gain.older:g} against {gain.score:g}"
    remedy = f"`loopty apply {history.name(version)}` takes that"
    return f"the best node, {history.name(best)}, is {word} {history[version].summary}: {scores}; {remedy}"


_LONG_CALL_SECONDS = 10.0
"""From then on, an open call is named as what a run waits for."""


class SlotUse(Record):
    """How many slots there are for trials and for proposals of models, and how many are taken now."""

    trials: int
    running: int
    questions: int
    asking: int


class AwaitedModel(Record):
    """A model that has not answered for a while: it thinks, or it is unavailable and asked again."""

    name: str
    seconds: float


def awaited_model(run: Run, now: float) -> AwaitedModel | None:
    """Return the model of the oldest open call, if nothing else is running."""
    calls = Spend.of(run).reservations.values()
    if not calls or Trials.of(run).running:
        return None
    oldest = min(calls, key=lambda call: call.since)
    seconds = now - oldest.since
    return AwaitedModel(oldest.model or oldest.role, seconds) if seconds >= _LONG_CALL_SECONDS else None


def slot_use(run: Run, trials: int, questions: int) -> SlotUse | None:
    spend = Spend.of(run)
    asking = sum(call.pool is not None for call in spend.reservations.values())
    if not asking and Role.EVOLVER not in spend.seconds:
        return None
    return SlotUse(trials, len(Trials.of(run).running), questions, asking)


_FEWEST_SAMPLES = 2


class RunState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    LOST = "lost"
    """Its process died without ending the session; the next `loopty run` resumes it."""
    IDLE = "idle"
    """No session has driven it yet."""


class OtherBest(Record):
    """The best node under another fingerprint; it is not compared with results under the present one."""

    fingerprint: str
    machine: str
    best: AgainstBaseline


class HeldNode(Record):
    """A node that counts for nothing until a person accepts it: its gain is suspiciously large."""

    node: NodeId
    handle: int
    score: float | None


class NoiseFloor(Record):
    """How much the score of the same node varies between measurements."""

    sigma: float
    percent: float | None
    """Of the baseline's score; None if that score is too close to zero."""
    measurements: int
    """How many of the newest results tell it."""
    node: str = ""
    """The node that they are of."""


class RunStatus(Record):
    """Everything that `loopty status` says."""

    run: int
    criteria: str
    state: RunState
    driver: str
    """The process that drives the run, or drove it when it was lost."""
    reason: str
    """Why the last session ended."""
    metric: str
    direction: Direction
    counts: tuple[PoolCount, ...]
    baseline: AgainstBaseline | None
    without_baseline: str
    """Why the baseline has no result and will not get one; empty if it has one or may still get it."""
    best: AgainstBaseline | None
    control: AgainstBaseline | None
    """The best control node, or the baseline where none is better; None before a control trial has ended."""
    uplift: ScoreChange | None
    """The change of the best attempt over the best control node; None before both pools have a result."""
    other_fingerprints: tuple[OtherBest, ...]
    """Other machines that have a baseline; the baseline, best and control above are of the present machine."""
    noise: NoiseFloor | None
    """None until something was measured twice."""
    since_best: int
    elapsed_seconds: float
    """Of the sessions that drove the run; `loopty run` works outside of sessions."""
    busy_seconds: float
    """Of all trials in the search, summed over parallel trials."""
    by_hand: bool
    """Whether trials must have run outside of sessions, because the sessions were too short for them."""
    trials_per_second: float | None
    """Per second of sessions; None if trials ran outside of sessions."""
    tokens: int
    money_usd: float
    left: Remaining | None
    running: tuple[RunningTrialRow, ...]
    verified: VerifierTotals | None
    """What the verifier did, if there is one."""
    rung: str
    """The rung of the ladder that proposes attempts now, and why; empty before the first change of rung."""
    asking: int
    """Model calls in flight."""
    stalls: int
    """How often nothing could be done because a model was unavailable."""
    stalled_seconds: float
    phase: RunPhase | None = None
    """None while it searches."""
    slots: SlotUse | None = None
    """None where no model proposes."""
    cascade: tuple[StageCost, ...] = ()
    """The stages of the cascade, in their order."""
    agents: tuple[AgentRow, ...] = ()
    """What each coding agent did, in each configuration."""
    tuning: SliceValue | None = None
    """What tune mode's slice costs and predicts; None where nothing was tuned."""
    combines: FrozenPool | None = None
    """The nodes of another run that this one combines; None for a search of its own."""
    is_paused: bool = False
    """Whether nothing new starts until `loopty resume`."""
    pause_reason: str = ""
    workers: tuple[WorkerRow, ...] = ()
    """The workers that run its trials, where they run elsewhere."""
    lost_leases: int = 0
    """Trials that a worker lost and another one got. None of them counts as a failure."""
    last_loss: str = ""
    audit: str = ""
    """Since when gains do not carry over to the held-out split; empty while they do, or nobody looked."""
    versions: str = ""
    """How the best node compares with the best past version, as a sentence; empty where none is ahead."""
    worker_slots: WorkerSlots | None = None
    """How many trials run at once on the workers, and what bounds that; None without workers."""
    nodes: tuple[ClusterRow, ...] = ()
    """The nodes of clusters that place its workers."""
    held: tuple[HeldNode, ...] = ()
    """The nodes that wait for a person to accept them, oldest first."""
    awaited: AwaitedModel | None = None
    """The model that everything waits for; None while a trial runs, or where no call is open for long."""

    def count(self, pool: Pool) -> PoolCount:
        return next(count for count in self.counts if count.pool is pool)

    @property
    def word(self) -> str:
        """Say in one or two words what the run does: the same ones in a terminal and on the page."""
        if self.state is RunState.LOST:
            return "interrupted"
        if self.state is RunState.STOPPED:
            return "stopped"
        if self.is_paused:
            return "paused"
        if self.state is RunState.IDLE:
            return "by hand" if self.baseline or self.best else "not started"
        if self.phase:
            return "confirming" if self.phase.name is PhaseName.CONFIRMATION else "measuring baseline"
        return "running"

    @property
    def work_seconds(self) -> float:
        """Return the time of the sessions, or of the trials if these ran outside of sessions."""
        return self.busy_seconds if self.by_hand else self.elapsed_seconds

    @property
    def control_leads(self) -> bool:
        """Say whether the best control node is better than the best attempt, by more than noise."""
        noise = self.noise.sigma if self.noise else 0.0
        return self.uplift is not None and self.uplift.amount < -SIGMAS * noise

    @property
    def refusals(self) -> int:
        return sum(count.refused for count in self.counts)


def status(
    history: History,
    run: Run,
    now: float,
    is_alive: Callable[[str], bool],
    pools: Pools | None = None,
    trials_at_once: int = 1,
    noise: Noise | None = None,
    stated_width: int | None = None,
) -> RunStatus:
    """Compute the status of the run at the time `now`.

    `is_alive` says whether an owner's process still runs; `pools` is the budget and `noise` the rules of repeats,
    if known; `trials_at_once` is the number of trials that a session runs in parallel without workers, and
    `stated_width` what the user allows with them.
    """
    state, pools = _state(run, is_alive), pools_in_force(run, pools) if pools else None
    seconds = session_seconds(run, now) if state is RunState.RUNNING else Session.of(run).seconds
    metric = run_metric(history, run)
    fingerprint = Cohorts.of(run).fingerprint
    best = against_baseline(history, Incumbents.of(run, Pool.ATTEMPT).best, fingerprint, metric)
    shown = pools_in_use(run, pools)
    best_control = Incumbents.of(run, Pool.CONTROL).best if Pool.CONTROL in shown else None
    control = against_baseline(history, best_control, fingerprint, metric) if _has_run(run, Pool.CONTROL) else None
    compared = control if _has_run(run, Pool.ATTEMPT) else None
    ended = sum(sum(TrialCounts.of(run, pool).endings.values()) for pool in BUDGETED_POOLS)
    busy = sum(TrialCounts.of(run, pool).busy_seconds for pool in BUDGETED_POOLS)
    rows = worker_rows(run, now) if state is RunState.RUNNING else ()
    slots = worker_slots(rows, stated_width)
    trials_at_once = slots.trials if slots else max(trials_at_once, Workers.of(run).most)
    by_hand = busy > seconds * max(trials_at_once, Workers.of(run).most)
    return RunStatus(
        run=run.number,
        criteria=run.criteria,
        state=state,
        driver=Session.of(run).driver,
        reason=Session.of(run).ended,
        metric=metric.name,
        direction=metric.direction,
        counts=tuple(pool_count(history, run, pool, pools) for pool in shown),
        baseline=against_baseline(history, run.root, fingerprint, metric),
        without_baseline=_baseline_failure(history[run.root]),
        best=best,
        control=control,
        uplift=_uplift(best, compared, metric, sigma(run, fingerprint, metric.name)),
        other_fingerprints=tuple(_other_fingerprints(history, run, metric)),
        noise=_noise_floor(history, run, metric),
        since_best=Incumbents.of(run, Pool.ATTEMPT).since_best,
        elapsed_seconds=seconds,
        busy_seconds=busy,
        by_hand=by_hand,
        trials_per_second=ended / seconds if ended and seconds > 0 and not by_hand else None,
        tokens=Spend.of(run).total_tokens,
        money_usd=Spend.of(run).total_money_usd,
        left=remaining_budget(run, pools, seconds) if pools else None,
        running=running_trials(history, run, now),
        verified=verifier_totals(run),
        rung=_rung(run),
        asking=len(Spend.of(run).reservations),
        stalls=Session.of(run).stalls,
        stalled_seconds=Session.of(run).stalled_seconds,
        phase=run_phase(history, run, noise),
        slots=slot_use(run, trials_at_once, (pools and pools.questions) or trials_at_once),
        cascade=stage_costs(run),
        agents=agent_rows(history, run, now),
        tuning=slice_value(run),
        combines=FrozenPool.of(run) if FrozenPool.of(run).base else None,
        is_paused=Session.of(run).is_paused,
        pause_reason=Session.of(run).pause_reason,
        workers=rows,
        lost_leases=Workers.of(run).lost_leases,
        last_loss=Workers.of(run).last_loss,
        audit=AuditAnchors.of(run).text,
        versions=version_lead(history, run),
        worker_slots=slots,
        nodes=cluster_rows(run) if state is RunState.RUNNING else (),
        held=tuple(_held(history, run)),
        awaited=awaited_model(run, now) if state is RunState.RUNNING else None,
    )


def _state(run: Run, is_alive: Callable[[str], bool]) -> RunState:
    if Session.of(run).driver:
        return RunState.RUNNING if is_alive(Session.of(run).driver) else RunState.LOST
    return RunState.STOPPED if Session.of(run).ended else RunState.IDLE


def _has_run(run: Run, pool: Pool) -> bool:
    """Say whether a trial of a proposal in this pool has ended with a result; the baseline is none."""
    finished = TrialCounts.of(run, pool).endings.get(Ending.FINISHED, 0)
    return finished > (pool is Pool.ATTEMPT)


def _rung(run: Run) -> str:
    ladder = LadderState.of(run, Pool.ATTEMPT)
    return f"{ladder.name} ({ladder.reason})" if ladder.name else ""


def _baseline_failure(root: Node) -> str:
    return root.reason if root.verdict not in (None, Verdict.KEPT) else ""


def _uplift(
    best: AgainstBaseline | None, control: AgainstBaseline | None, metric: Metric, noise: float
) -> ScoreChange | None:
    return score_change(best.score, control.score, metric.direction, noise) if best and control else None


def _other_fingerprints(history: History, run: Run, metric: Metric) -> Iterator[OtherBest]:
    for fingerprint, incumbent in Incumbents.of(run, Pool.ATTEMPT).by_fingerprint.items():
        best = against_baseline(history, incumbent, fingerprint, metric)
        if best and fingerprint != Cohorts.of(run).fingerprint:
            yield OtherBest(fingerprint, machine_description(run, fingerprint), best)


def _held(history: History, run: Run) -> Iterator[HeldNode]:
    for node in map(history.__getitem__, SearchSummary.of(run).held):
        if node.verdict is Verdict.HELD:
            yield HeldNode(node.id, node.handle, history.score(node))


def _noise_floor(history: History, run: Run, metric: Metric) -> NoiseFloor | None:
    """Return the noise that the judge goes by: that of the best node's newest results, or of the baseline's."""
    fingerprint, found = Cohorts.of(run).fingerprint, None
    known = Cohorts.of(run).noise.get(fingerprint, {})
    for node in map(history.__getitem__, filter(None, (run.root, Incumbents.of(run, Pool.ATTEMPT).best))):
        result = node.result(fingerprint)
        noise = recent_noise(result, known).get(metric.name) if result else None
        if result is None or noise is None or len(result.samples) < _FEWEST_SAMPLES or (found and not noise):
            continue
        share = percent_of(noise, result.outcome.metrics[metric.name], noise)
        found = NoiseFloor(noise, share, min(len(result.samples), NOISE_SAMPLES), node.name)
    return found
