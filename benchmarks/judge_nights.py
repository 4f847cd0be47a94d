"""Whole nights under the judge itself: its decisions and the fold of its events, over simulated machines.

Scores are speeds, higher is better. The truth is known: each node has a level, and each measurement shows it with
noise, on a machine that changes.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from judge_machines import Machine
from judge_noise import gaussian

from loopty.domain.access import Access
from loopty.domain.benchmark import Benchmark, Limits
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective, Statistic
from loopty.domain.proposal import Proposal
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.task import Audit, Noise, PluginChoice, Pools, SandboxSpec, Task
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.loop import next_undecided
from loopty.engine.protocols import CommittedFiles
from loopty.judge import revisions
from loopty.judge.tuning import Judging
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.fold import Event, Recorded
from loopty.record.history import History
from loopty.record.trials import TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.session.runs import start_run
from loopty.show.comparisons import against_baseline
from loopty.show.tally import false_keeps
from loopty.testing.fakes import object_name

BASELINE = 100.0
_ROOT = NodeId("1")
_TOSS = 5

Effects = Callable[[random.Random], float]
"""Draws the true gain of a candidate over its parent, as a share."""


def no_effect(_rng: random.Random) -> float:
    return 0.0


def mixed_effects(rng: random.Random) -> float:
    """One candidate in eight is better, by 1 % on average; three in eight change nothing; the others are worse."""
    kind = rng.random()
    if kind < 0.125:
        return rng.expovariate(1 / 0.01)
    return 0.0 if kind < 0.5 else -rng.expovariate(1 / 0.02)


def rare_effect(effect: float) -> Effects:
    """One candidate in eight has this effect, the others have none."""
    return lambda rng: effect if rng.random() < 0.125 else 0.0


@dataclass
class World:
    """One machine for one night: measures levels with noise and counts the measurements.

    Each candidate has a noise of its own, so that two rules see the same first result of the same candidate: their
    nights are compared in pairs.
    """

    machine: Iterator[float]
    sigma: float
    seed: int
    noisy_start: tuple[int, float] = (0, 1.0)
    """So many measurements at the start have so many times the noise."""
    measurements: int = 0
    stalled: float = 0.0
    """How busy the machine was at the last measurement, as the judge gets to know it."""
    noises: dict[int, random.Random] = field(default_factory=dict)
    errors: Callable[[random.Random], Iterator[float]] = gaussian
    """The noise of one measurement, in units of `sigma`."""
    drawn: dict[int, Iterator[float]] = field(default_factory=dict)
    tossers: float = 0.0
    """The share of candidates that toss a coin: `_TOSS` times the noise better, or worse."""

    @classmethod
    def of(cls, machine: Machine, sigma: float, seed: int) -> "World":
        return cls(machine(random.Random(seed + 1)), sigma, seed)

    def measure(self, candidate: int, level: float) -> float:
        """Measure the candidate of this number; 0 is the baseline."""
        self.measurements += 1
        coins = self.noises.setdefault(candidate, random.Random(f"{self.seed} {candidate}"))
        errors = self.drawn.setdefault(candidate, self.errors(random.Random(f"{self.seed} noise {candidate}")))
        if self.is_tosser(candidate):
            level *= 1 + _TOSS * self.sigma * coins.choice((-1, 1))
        lost = next(self.machine)
        self.stalled = min(2 * lost, 1.0)
        until, times = self.noisy_start
        sigma = self.sigma * (times if self.measurements <= until else 1.0)
        return level * (1 - lost) * max(1 + sigma * next(errors), 0.01)

    def is_tosser(self, candidate: int) -> bool:
        """Say whether the candidate tosses a coin in each of its measurements."""
        return candidate > 0 and random.Random(f"{self.seed} coin {candidate}").random() < self.tossers


@dataclass
class Night:
    """What a night ended with."""

    judged: int = 0
    """Candidates with a verdict."""
    null: int = 0
    """Candidates that were no better than what they were compared with."""
    false_keeps: int = 0
    better: int = 0
    true_keeps: int = 0
    available: float = 0.0
    """The sum of the gains of all better candidates, in logarithms."""
    gain: float = 0.0
    """The true gain of the best over the baseline, as a share."""
    claim: float = 0.0
    """The gain that the headline states; NaN where nothing is claimed."""
    claim_low: float = math.nan
    claim_high: float = math.nan
    measurements: int = 0
    gain_at: dict[int, float] = field(default_factory=dict)
    """The true gain after so many measurements."""
    stated: list[tuple[float, float]] = field(default_factory=list)
    """Of each keep: the true effect and the stated one, as shares."""
    expected_false: float = math.nan
    found: float = 0.0
    """The true gain of the search, in logarithms."""


class JudgedNight:
    """A night under the judge of loopty."""

    def __init__(
        self,
        world: World,
        effects: Effects,
        noise: Noise,
        rng: random.Random,
        direction: Direction = Direction.MAX,
        statistic: Statistic = Statistic.MEDIAN,
    ) -> None:
        """With the direction `min` the levels are times."""
        self.world, self.effects, self.rng = world, effects, rng
        self.history = MemoryLedger().history()
        self.levels: dict[str, float] = {"1": BASELINE}
        self.numbers: dict[str, int] = {"1": 0}
        self.judging = Judging(Pools(attempts=10**9), noise)
        self.night = Night()
        self.direction = direction
        self._count = 0
        files = _files(0)
        seed = rng.randrange(10**9)
        task = _task(noise, seed, direction, statistic)
        self._record(start_run(self.history, task, "", "", files, "a night", secret=str(seed)))
        self._measure_until_verdict(decisions.start_trial(self.history, _ROOT, "me", self.judging))

    @property
    def best(self) -> NodeId:
        return Incumbents.of(self.history.runs[1], Pool.ATTEMPT).best or _ROOT

    def try_candidate(self, effect: float | None = None) -> NodeId:
        """Add a candidate below the best node and measure it to its verdict."""
        drawn = self.effects(self.rng) if effect is None else effect
        parent = self.best
        self._count += 1
        if self.world.is_tosser(self._count):
            drawn = 0.0
        proposal = Proposal("draw", parent, "a change", {"x": self._count / 1e9})
        files = _files(self._count)
        added = list(decisions.add_node(self.history, proposal, files, Pool.ATTEMPT))
        self._record(added)
        node = NodeId(added[0].node)  # type: ignore[attr-defined]
        self.levels[node] = self.levels[parent] * (1 + drawn) ** self.direction.sign
        self.numbers[node] = self._count
        self.night.available += math.log1p(max(drawn, 0.0))
        self._measure_until_verdict(decisions.start_trial(self.history, node, "me", self.judging))
        self._judge_what_waits()
        return node

    def ask_again(self, most: int) -> None:
        """Measure what is undecided again, the most promising first, up to this many measurements."""
        for node in revisions.undecided_nodes(self.history, 1):
            if self.world.measurements < most:
                self._record(revisions.ask_again(self.history, node))
                self._judge_what_waits()

    def confirm(self) -> None:
        """Measure the best node beside the baseline, where this judge does that at the end of a night."""
        noise = self.judging.noise
        before = -1
        while self.world.measurements > before:
            before = self.world.measurements
            events = revisions.start_confirmation(self.history, 1, "me", noise, noise.confirm)
            self._measure_until_verdict(events)

    def finish(self) -> Night:
        """The night's figures, with the headline that loopty would show."""
        night, history = self.night, self.history
        night.measurements = self.world.measurements
        night.gain = self._gain()
        night.claim, night.claim_low, night.claim_high = _headline(history, self.direction)
        night.expected_false = false_keeps(history, 1).expected
        return night

    def _gain(self) -> float:
        """Compute the true gain of the best; of times in percent of the baseline's, as the headline states it."""
        return self.direction.sign * (self.levels[self.best] / BASELINE - 1)

    def _judge_what_waits(self) -> None:
        while found := next_undecided(self.history, 1, Pool.ATTEMPT):
            self._measure_until_verdict(decisions.start_trial(self.history, found.id, "me", self.judging))

    def _measure_until_verdict(self, events: Iterable[Event]) -> None:
        trial = self._record(events)
        while trial:
            score = self.world.measure(self.numbers[trial.node], self.levels[trial.node])
            outcome = Outcome(Ending.FINISHED, {"score": score}, stalled=self.world.stalled)
            trial = self._record(
                decisions.end_trial(self.history, trial.node, trial.number, outcome, self.judging)
            )
            self.night.gain_at[self.world.measurements] = self._gain()

    def _record(self, events: Iterable[Event]) -> TrialStarted | None:
        """Fold the events in; the trial that they start."""
        started = None
        for event in events:
            self.history.apply(Recorded(self.history.number + 1, float(self.world.measurements), event))
            if isinstance(event, TrialStarted):
                started = event
            if isinstance(event, NodeJudged) and event.node != _ROOT and event.against:
                self._count_verdict(event)
        return started

    def _count_verdict(self, event: NodeJudged) -> None:
        assert event.against
        night, kept = self.night, event.verdict is Verdict.KEPT
        effect = self.direction.sign * (self.levels[event.node] / self.levels[event.against] - 1)
        night.judged += 1
        night.null += effect <= 0
        night.better += effect > 0
        night.false_keeps += kept and effect <= 0
        night.true_keeps += kept and effect > 0
        if kept and event.effect:
            night.stated.append((effect, event.effect.amount / self.levels[event.against]))


def judged_night(
    machine: Machine, sigma: float, effects: Effects, most: int, seed: int, noise: Noise | None = None
) -> Night:
    """A night of this many measurements under the judge, those of its confirmation at the end included."""
    rng, noise = random.Random(seed), noise or Noise()
    world = World.of(machine, sigma, seed)
    night = JudgedNight(world, effects, noise, rng)
    while world.measurements < most - 2 * getattr(noise, "confirm", 0):
        night.try_candidate()
    night.confirm()
    return night.finish()


@dataclass(frozen=True)
class Rule:
    """Keep what measures better than the record did, in the mean of so many measurements."""

    repeats: int = 1


def naive_night(machine: Machine, sigma: float, effects: Effects, most: int, seed: int) -> Night:
    """The same night under the naive rule: keep what measures better than the record did."""
    return simple_night(World.of(machine, sigma, seed), effects, Rule(), most, seed)


def simple_night(world: World, effects: Effects, rule: Rule, most: int, seed: int) -> Night:
    rng = random.Random(seed)
    rng.randrange(10**9)  # as the judge does for its task, so that the candidates are the same
    level, night = BASELINE, Night()

    def measure(candidate: int, level: float) -> float:
        return math.fsum(world.measure(candidate, level) for _ in range(rule.repeats)) / rule.repeats

    first = record = measure(0, level)
    while world.measurements < most:
        effect = effects(rng)
        night.judged += 1
        if world.is_tosser(night.judged):
            effect = 0.0
        score = measure(night.judged, level * (1 + effect))
        night.null += effect <= 0
        night.better += effect > 0
        night.available += math.log1p(max(effect, 0.0))
        if score > record:
            night.false_keeps += effect <= 0
            night.true_keeps += effect > 0
            night.stated.append((effect, score / record - 1))
            record, level = score, level * (1 + effect)
        night.gain_at[world.measurements] = level / BASELINE - 1
    night.measurements, night.gain, night.claim = world.measurements, level / BASELINE - 1, record / first - 1
    night.found = math.log(level / BASELINE)
    return night


def kept_share(
    machine: Machine, sigma: float, effect: float, warm_up: int, tries: int, seeds: Sequence[int], noise: Noise
) -> tuple[float, float]:
    """How many candidates with this effect are kept late in nights whose other candidates change nothing.

    Each night starts with `warm_up` candidates that are worse, so that nothing refreshes the record but the judge
    itself. Also the mean number of measurements for each of the candidates that count.
    """
    kept = spent = 0
    for seed in seeds:
        rng = random.Random(seed)
        world = World.of(machine, sigma, seed)
        night = JudgedNight(world, no_effect, noise, rng)
        for _ in range(warm_up):
            night.try_candidate(-0.03)
        for _ in range(tries):
            before = world.measurements
            node = night.try_candidate(effect)
            kept += night.history[node].verdict is Verdict.KEPT
            spent += world.measurements - before
    return kept / (tries * len(seeds)), spent / (tries * len(seeds))


def _headline(history: History, direction: Direction) -> tuple[float, float, float]:
    """The stated gain of the best over the baseline, as a share, with its interval where there is one."""
    best = Incumbents.of(history.runs[1], Pool.ATTEMPT).best
    found = against_baseline(history, best, "", Metric("score", direction))
    change = found.over_baseline if found else None
    if change is None or change.percent is None:
        return 0.0, math.nan, math.nan
    share = change.percent / change.amount / 100 if change.amount else math.nan
    ends = [math.nan if end is None else end * share for end in (change.low, change.high)]
    return change.percent / 100, ends[0], ends[1]


def _files(number: int) -> CommittedFiles:
    return CommittedFiles(object_name(f"commit {number}"), object_name(f"tree {number}"))


def _task(noise: Noise, seed: int, direction: Direction, statistic: Statistic = Statistic.MEDIAN) -> Task:
    space = Space({"x": Parameter(ParameterKind.FLOAT, 0.0, 1.0)})
    none = PluginChoice("none")
    return Task(
        "", Benchmark("true", 1.0), Objective(direction, statistic=statistic), Access(),
        space, Limits(), Pools(), noise, Audit(),
        SandboxSpec(), (), none, none, none, 1, seed,
    )  # fmt: skip
