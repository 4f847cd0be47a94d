"""The stated gain is that of fresh pairs, measured at the end of a run."""

import random

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.proposal import Proposal
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.kit import codec
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.trials import TrialCounts, TrialStarted
from loopty.record.verdicts import Confirmation, Incumbents
from loopty.show.comparisons import against_baseline
from loopty.testing.fakes import ScriptedProposer

SCORE = Metric("score")


def proposals(count=1):
    return ScriptedProposer(
        [Proposal("hand", NodeId("1"), "a change", {"x": (place + 1) / 100}) for place in range(count)]
    )


def best(run):
    return Incumbents.of(run.run, Pool.ATTEMPT).best


def headline(run):
    return against_baseline(run.history, best(run), "", SCORE).over_baseline


class Levels:
    """The score of each node, with noise, on a machine of this speed."""

    def __init__(self, levels, sigma=1.0, speed=lambda _: 1.0, seed=0):
        self.levels, self.sigma, self.speed = levels, sigma, speed
        self.rng = random.Random(seed)
        self.measured = []

    def __call__(self, trial):
        self.measured.append((str(trial.node.id), trial.pool))
        level = self.levels.get(str(trial.node.id), 100.0) * self.speed(len(self.measured))
        return level + self.rng.gauss(0, self.sigma)


async def test_the_best_is_measured_beside_the_baseline_at_the_end(bench):
    levels = Levels({"1.1": 120.0})
    run = bench(levels, proposer=proposals(), pools=Pools(attempts=1))
    await run.drive()
    fresh = [node for node, pool in levels.measured if pool is Pool.CONFIRM]
    assert [sorted(fresh[place : place + 2]) for place in range(0, 20, 2)] == [["1", "1.1"]] * 10
    assert len({fresh[place] for place in range(0, 20, 2)}) == 2  # a coin says which goes first
    change = headline(run)
    assert change.is_confirmed
    assert change.pairs == 10
    assert change.low < 20 < change.high
    assert change.high - change.low < 5
    assert change.amount == pytest.approx(20, abs=1.5)


async def test_the_gain_is_a_share_of_each_pairs_own_baseline(bench):
    """Two pairs at two speeds of the machine show two amounts, and the same gain."""
    fresh = []
    levels = Levels({"1.1": 120.0}, sigma=0.1)
    levels.speed = lambda _: 1.3 if len(fresh) > 10 else 1.0

    def measure(trial):
        if trial.pool is Pool.CONFIRM:
            fresh.append(trial)
        return levels(trial)

    run = bench(measure, proposer=proposals(), pools=Pools(attempts=1))
    await run.drive()
    change = headline(run)
    assert change.percent == pytest.approx(20, abs=0.3)
    assert change.high - change.low < 2


async def test_before_that_the_claim_is_unconfirmed_and_says_what_the_verdict_says(bench):
    run = bench(Levels({"1.1": 120.0}), proposer=proposals(), pools=Pools(attempts=1), noise=Noise(confirm=0))
    await run.drive()
    change = headline(run)
    assert change.is_confirmed is False
    assert change.amount == run.history[NodeId("1.1")].effect.amount


@pytest.mark.parametrize("late_speed", [0.9, 1.1])
async def test_a_machine_that_changes_speed_changes_no_claim(bench, late_speed):
    levels = Levels({"1.1": 104.0}, speed=lambda count: 1.0 if count < 19 else late_speed)
    run = bench(levels, proposer=proposals(), pools=Pools(attempts=1))
    await run.drive()
    assert best(run) == "1.1"
    assert headline(run).amount == pytest.approx(4 * late_speed, abs=1.5)


async def test_where_nothing_varies_five_equal_results_confirm_the_winner(bench):
    levels = Levels({"1.1": 120.0}, sigma=0.0)
    run = bench(levels, proposer=proposals(), pools=Pools(attempts=1))
    await run.drive()
    assert [node for node, pool in levels.measured if pool is Pool.CONFIRM] == ["1.1"] * 4
    assert headline(run).is_confirmed is None


async def test_a_run_that_goes_on_confirms_only_a_new_best(bench):
    levels = Levels({"1.1": 120.0, "1.2": 140.0})
    run = bench(levels, proposer=proposals(2), pools=Pools(attempts=1))
    await run.drive()
    await run.drive()
    assert TrialCounts.of(run.run, Pool.CONFIRM).started == 20
    run.task = codec.build(type(run.task), {**codec.plain(run.task), "pools": {"attempts": 2}})
    await run.drive()
    assert best(run) == "1.2"
    assert 20 + 6 <= TrialCounts.of(run.run, Pool.CONFIRM).started <= 40  # the second gain is twice as large
    assert Confirmation.of(run.run).node == "1.2"
    assert headline(run).amount == pytest.approx(40, abs=2)


async def test_stopped_in_the_middle_it_goes_on_with_whole_pairs(bench):
    async def pause(trial):
        if trial.pool is Pool.CONFIRM and trial.number > 12 and not stopped:
            stopped.append(True)
            loop.stop("stopped on request")

    stopped = []
    run = bench(Levels({"1.1": 120.0}), proposer=proposals(), pools=Pools(attempts=1), pause=pause)
    loop = run.loop()
    await loop.drive()
    assert stopped
    assert headline(run).pairs < 10 or headline(run).is_confirmed is False
    await run.drive()
    assert headline(run).pairs == 10
    opened, folded = run.ledger.history(), MemoryLedger().history()
    for recorded in run.ledger.read():
        folded.apply(recorded)
    assert codec.plain(opened.runs) == codec.plain(folded.runs)


async def test_a_best_that_proves_worse_than_the_baseline_loses_its_place(bench):
    levels = Levels({"1.1": 120.0})

    def score(trial):
        level = levels(trial)
        return level - 60 if trial.pool is Pool.CONFIRM and trial.node.id == "1.1" else level

    run = bench(score, proposer=proposals(), pools=Pools(attempts=1))
    await run.drive()
    assert best(run) == "1"
    assert run.history[NodeId("1.1")].verdict is Verdict.DISCARDED
    assert "worse than the baseline in 3 fresh pairs" in run.history[NodeId("1.1")].reason


async def test_a_best_that_fails_beside_the_baseline_loses_its_place(bench):
    levels = Levels({"1.1": 120.0})

    def score(trial):
        if trial.pool is Pool.CONFIRM and trial.node.id == "1.1":
            return Outcome(Ending.FAILED, reason="it fell over")
        return levels(trial)

    run = bench(score, proposer=proposals(), pools=Pools(attempts=1))
    await run.drive()
    assert best(run) == "1"


async def test_the_wall_clock_leaves_time_for_the_confirmation(bench):
    def score(trial):
        return Outcome(Ending.FINISHED, {"score": levels(trial)}, seconds=1.0)

    levels = Levels({f"1.{place}": 120.0 if place == 1 else 90.0 for place in range(1, 200)})
    run = bench(score, proposer=proposals(199), pools=Pools(attempts=199, wall_seconds=25.0))
    run.workspaces.conclude = lambda *_: [next(run.ticks) for _ in range(30)]  # the clock shows hundredths
    await run.drive()
    starts = [item.event for item in run.ledger.read() if isinstance(item.event, TrialStarted)]
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started < 199
    assert sum(event.pool is Pool.CONFIRM for event in starts) == 20
