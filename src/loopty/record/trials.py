"""Trials: bounded executions of nodes; and cohorts, the machines on which their results are comparable."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.counting import CLOCK
from loopty.domain.evidence import noise_floor
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metrics
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.kit.contents import blake2b, sha256
from loopty.kit.records import Record, field, replace
from loopty.record import node_record
from loopty.record.fold import Event, Family, FoldState
from loopty.record.run_record import PoolPart, Run, RunPart


class MachineSeen(Event):
    """The facts behind a fingerprint."""

    run: int
    fingerprint: str
    facts: Mapping[str, str]


class RunRebaselined(Event):
    """From here on results are compared under this fingerprint, with this node as the first incumbent."""

    run: int
    fingerprint: str
    incumbent: NodeId


class CohortOpened(Event):
    """Results under this fingerprint are compared beside those of the present one, first with this node."""

    run: int
    fingerprint: str
    incumbent: NodeId


class Repeat(Record):
    """Two measurements of the same code, one after the other."""

    before: Metrics
    after: Metrics


MOST_REPEATS = 18
"""How many repeats are remembered: so many allow a verdict by one pair at an error rate of 0.2."""


class Cohorts(RunPart):
    """The fingerprints under which a run has results."""

    fingerprint: str = ""
    """The one under which results are compared now."""
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The facts behind each fingerprint."""
    noise: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Standard deviation of each metric by fingerprint, 0 where nothing varied."""
    repeats: Mapping[str, tuple[Repeat, ...]] = field(default_factory=dict)
    """The newest repeats of any node, by fingerprint: what the same code differs by."""

    def with_repeat(self, fingerprint: str, before: Metrics, after: Metrics) -> Cohorts:
        known = (*self.repeats.get(fingerprint, ()), Repeat(before, after))[-MOST_REPEATS:]
        return replace(self, repeats={**self.repeats, fingerprint: known})


def _note_machine(state: FoldState, event: MachineSeen, _at: float) -> None:
    run = state.runs[event.run]
    cohorts = Cohorts.of(run)
    machines = {**cohorts.machines, event.fingerprint: event.facts}
    state.put_run(run.with_part(replace(cohorts, machines=machines)))


def _rebaseline(state: FoldState, event: RunRebaselined | CohortOpened, _at: float) -> None:
    run = state.runs[event.run]
    cohorts, known = Cohorts.of(run), state[run.root].result(event.fingerprint)
    noise = {**cohorts.noise, event.fingerprint: noise_floor(known.samples if known else ())}
    present = event.fingerprint if isinstance(event, RunRebaselined) else cohorts.fingerprint
    state.put_run(run.with_part(replace(cohorts, fingerprint=present, noise=noise)))


def note_machine(history: FoldState, run: int, fingerprint: str, facts: Mapping[str, str]) -> list[Event]:
    """Record the facts behind a fingerprint, once per run."""
    known = fingerprint in Cohorts.of(history.runs[run]).machines
    return [] if known else [MachineSeen(run, fingerprint, facts)]


COHORTS = Family(
    (MachineSeen, RunRebaselined, CohortOpened),
    {MachineSeen: _note_machine, RunRebaselined: _rebaseline, CohortOpened: _rebaseline},
)


class TrialStarted(Event):
    """A trial starts; `owner` is the process that runs it."""

    node: NodeId
    number: int
    pool: Pool
    owner: str
    subject: NodeId | None = None
    """The node whose verdict this trial serves, where that is not the first trial of `node` itself."""
    incumbent: NodeId | None = None
    """The node that the subject is measured against."""


class SplitShown(Event):
    """A trial gets to see the held-out split with this digest. Only audits count these events."""

    node: NodeId
    number: int
    split: str


class TrialEnded(Event):
    """`lost`: the process that owned the trial died; nobody knows how it would have ended."""

    node: NodeId
    number: int
    outcome: Outcome
    lost: bool = False


class RunningTrial(Record):
    """A trial that has not ended."""

    pool: Pool
    owner: str
    since: float
    subject: NodeId | None = None
    """The node whose verdict the trial serves, where that is not the one measured."""


class Trials(RunPart):
    """The trials that run now, and the nodes that wait for a verdict."""

    running: Mapping[str, RunningTrial] = field(default_factory=dict)
    """By trial name: `node#number`."""
    undecided: tuple[NodeId, ...] = ()
    """Nodes with a result and no verdict yet."""


class StageCount(Record):
    """How often a stage of the cascade ran, how many trials it stopped, and the time that it took."""

    runs: int = 0
    stopped: int = 0
    seconds: float = 0.0


class TrialCounts(PoolPart):
    """How many trials a pool has started, and how they ended. A cancelled trial is returned to the budget."""

    started: int = 0
    endings: Mapping[str, int] = field(default_factory=dict)
    busy_seconds: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The busy seconds by ending."""
    cascade: Mapping[str, StageCount] = field(default_factory=dict)
    """By the name of the stage."""

    def with_ending(self, outcome: Outcome) -> TrialCounts:
        seconds = round(self.seconds.get(outcome.ending, 0.0) + outcome.seconds, 6)
        return replace(
            self,
            endings={**self.endings, outcome.ending: self.endings.get(outcome.ending, 0) + 1},
            busy_seconds=round(self.busy_seconds + outcome.seconds, 6),
            seconds={**self.seconds, outcome.ending: seconds},
            cascade=self._with_stages(outcome) if outcome.cascade else self.cascade,
        )

    def _with_stages(self, outcome: Outcome) -> Mapping[str, StageCount]:
        counts = dict(self.cascade)
        for result in outcome.cascade:
            count = counts.get(result.name, StageCount())
            is_stop = outcome.ending is Ending.STOPPED and result is outcome.cascade[-1]
            seconds = round(count.seconds + result.seconds, 6)
            counts[result.name] = StageCount(count.runs + 1, count.stopped + is_stop, seconds)
        return counts


def trial_name(node: NodeId, number: int) -> str:
    return f"{node}#{number}"


def trial_token(run: Run, name: str) -> str:
    """Compute a name for the trial that tells nothing about it: only the run's secret gives it."""
    # Stored folders of nodes have such names, too: `gc` of one ledger never removes files of another.
    key = sha256((run.secret or str(run.started_at)).encode()).digest()
    return blake2b(name.encode(), key=key, digest_size=16).hexdigest()


def trial_parts(name: str) -> tuple[NodeId, int]:
    node, _, number = name.partition("#")
    return NodeId(node), int(number)


def _start(state: FoldState, event: TrialStarted, at: float) -> None:
    run, node = state.runs[event.node.run], state[event.node]
    counts, trials = TrialCounts.of(run, event.pool), Trials.of(run)
    if event.node.parent or event.subject:
        run = run.with_pool_part(event.pool, replace(counts, started=counts.started + 1))
    running = RunningTrial(event.pool, event.owner, at, event.subject)
    trials = replace(trials, running={**trials.running, trial_name(event.node, event.number): running})
    state.put_run(run.with_part(trials))
    if event.subject or not event.pool.rules.judging:
        state.put(replace(node, trials=event.number))
    if event.pool.rules.judging:
        subject = state[event.subject] if event.subject else node
        pairing = subject.pairing
        if event.incumbent:
            pairing = node_record.pairing_with(subject, state[event.incumbent], Cohorts.of(run).noise)
        trials_of_subject = subject.trials if event.subject else event.number
        state.put(replace(subject, trials=trials_of_subject, running=True, pairing=pairing))


def _end(state: FoldState, event: TrialEnded, _at: float) -> None:
    run, outcome = state.runs[event.node.run], event.outcome
    trials = Trials.of(run)
    still_running = dict(trials.running)
    trial = still_running.pop(trial_name(event.node, event.number))
    cancelled = outcome.ending is Ending.CANCELLED
    counts = TrialCounts.of(run, trial.pool).with_ending(outcome)
    if cancelled and (event.node.parent or trial.subject):
        counts = replace(counts, started=counts.started - 1)
    undecided = trials.undecided
    run = _with_repeat(state, run, event, trial.pool)
    if CLOCK in outcome.metrics:
        pass  # it confirms a count, and is no result of the node
    elif trial.pool in (Pool.REBASE, Pool.CONFIRM) and (sample := _counting_sample(state, event.node, outcome)):
        state.put(node_record.add_sample(state[event.node], outcome, sample[0]))
    elif trial.pool.rules.judging and trial.pool is not Pool.REVIEW:
        state.put(node_record.stop_running(state[trial.subject or event.node], cancelled, event.lost))
        if trial.subject and not cancelled:
            _repeat(state, trial.subject, event.node, outcome)
        elif not cancelled:
            if event.node.parent is None:  # the first result of a baseline decides which metrics count
                state.put(replace(state[event.node], outcome=outcome))
            sample = _counting_sample(state, event.node, outcome)
            state.put(replace(state[event.node], outcome=outcome, samples=sample))
            if state[event.node].verdict is None:  # it may have been withdrawn meanwhile
                undecided = (*undecided, event.node)
    state.put_run(run.with_pool_part(trial.pool, counts).with_part(Trials(still_running, undecided)))


def _with_repeat(state: FoldState, run: Run, event: TrialEnded, pool: Pool) -> Run:
    """Remember the node's measurement beside the one before, if it had one."""
    outcome = event.outcome
    is_result = (pool.rules.judging and pool is not Pool.REVIEW) or pool in (Pool.REBASE, Pool.CONFIRM)
    known = state[event.node].result(outcome.fingerprint)
    sample = _counting_sample(state, event.node, outcome) if known and known.samples and is_result else ()
    if not sample or known is None or CLOCK in outcome.metrics:
        return run
    cohorts = Cohorts.of(run)
    return run.with_part(cohorts.with_repeat(outcome.fingerprint, known.samples[-1], sample[0]))


def _repeat(state: FoldState, subject: NodeId, node: NodeId, outcome: Outcome) -> None:
    """Fold a repeated measurement that serves the subject's verdict: of itself, or of its incumbent."""
    sample = _counting_sample(state, node, outcome)
    if sample and node != subject:
        state.put(node_record.add_sample(state[node], outcome, sample[0]))
    elif node != subject:
        state.put(replace(state[node], faults_in_row=state[node].faults_in_row + 1))
    state.put(node_record.add_repeat(state[subject], outcome, sample, own=node == subject))


def _counting_sample(state: FoldState, node: NodeId, outcome: Outcome) -> tuple[Metrics, ...]:
    return node_record.counting_sample(outcome, state.counting_metrics(node.run))


TRIALS = Family(
    (TrialStarted, SplitShown, TrialEnded),
    {TrialStarted: _start, TrialEnded: _end},
)
