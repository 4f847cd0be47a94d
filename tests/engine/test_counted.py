"""Counted instructions: one run decides, and fresh pairs by the clock confirm the best."""

import random

from loopty.domain.counting import CLOCK, PROGRAMS
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.proposal import Proposal
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.record.verdicts import Incumbents
from loopty.show.comparisons import against_baseline
from loopty.show.score_text import ScoreText
from loopty.testing.fakes import ScriptedProposer

BASELINE = 1_000_000.0
COUNT = Metric("score", Direction.MIN)


class Program:
    """Counts by node, and CPU seconds by node where the clock confirms."""

    def __init__(self, counts, seconds=None, drift=lambda: 0):
        self.counts, self.seconds, self.drift = counts, seconds or {}, drift
        self.rng = random.Random(0)
        self.measured = []

    def __call__(self, trial):
        node = str(trial.node.id)
        self.measured.append((node, trial.pool))
        if trial.pool is Pool.CONFIRM:
            seconds = self.seconds.get(node, 1.0) * self.rng.uniform(0.97, 1.03)
            return Outcome(Ending.FINISHED, {CLOCK: seconds}, {CLOCK: Direction.MIN})
        count = self.counts.get(node, BASELINE) + self.drift()
        return Outcome(Ending.FINISHED, {"score": count, PROGRAMS: 1.0}, {"score": Direction.MIN})

    def runs_of(self, node, *pools):
        return sum(one == node and pool in pools for one, pool in self.measured)


def drive(bench, program, count=1, **rules):
    proposer = ScriptedProposer(
        [Proposal("hand", NodeId("1"), "a change", {"x": (place + 1) / 100}) for place in range(count)]
    )
    rules.setdefault("noise", Noise(confirm=6))
    return bench(program, Objective(Direction.MIN), Pools(attempts=count), proposer=proposer, **rules)


def verdict(run, node):
    return run.history[NodeId(node)].verdict


async def test_one_run_decides_and_two_of_the_baseline_show_that_counts_repeat(bench):
    program = Program({"1.1": 990_000.0, "1.2": 1_010_000.0}, {"1.1": 0.9})
    run = drive(bench, program, 2)
    await run.drive()
    assert (verdict(run, "1.1"), verdict(run, "1.2")) == (Verdict.KEPT, Verdict.DISCARDED)
    assert program.runs_of("1", Pool.ATTEMPT, Pool.REPEAT) == 2
    assert program.runs_of("1.1", Pool.ATTEMPT, Pool.REPEAT) == 1
    assert program.runs_of("1.2", Pool.ATTEMPT, Pool.REPEAT) == 1


async def test_a_difference_that_counts_do_not_show_is_no_gain(bench):
    run = drive(bench, Program({"1.1": BASELINE - 900}))
    await run.drive()
    assert verdict(run, "1.1") is Verdict.DISCARDED
    assert "too little for a count to show" in run.history[NodeId("1.1")].reason


async def test_counts_that_differ_a_little_still_decide_at_once(bench):
    rng = random.Random(1)
    program = Program({"1.1": 980_000.0}, {"1.1": 0.9}, drift=lambda: rng.randrange(200))
    run = drive(bench, program)
    await run.drive()
    assert verdict(run, "1.1") is Verdict.KEPT
    assert program.runs_of("1.1", Pool.ATTEMPT, Pool.REPEAT) == 1


async def test_counts_that_vary_are_judged_like_times(bench):
    rng = random.Random(1)
    program = Program({"1.1": 800_000.0}, {"1.1": 0.9}, drift=lambda: rng.randrange(50_000))
    run = drive(bench, program)
    await run.drive()
    assert program.runs_of("1", Pool.ATTEMPT) + program.runs_of("1", Pool.REPEAT) > 5
    assert verdict(run, "1.1") is Verdict.KEPT
    assert run.history[NodeId("1.1")].effect.pairs >= 3


async def test_the_clock_confirms_what_was_counted(bench):
    program = Program({"1.1": 766_000.0}, {"1.1": 0.79})
    run = drive(bench, program)
    await run.drive()
    assert program.runs_of("1.1", Pool.CONFIRM) == program.runs_of("1", Pool.CONFIRM) == 3
    change = against_baseline(run.history, NodeId("1.1"), "", COUNT).over_baseline
    words = ScoreText.of([], [change]).change_words(change, "the baseline")
    assert words.startswith("23.4 % fewer instructions than the baseline; by the clock 2")
    assert "% faster (95 % interval +" in words
    assert run.history[NodeId("1.1")].outcome.metrics["score"] == 766_000.0, "the clock is no result of the node"
    assert len(run.history[NodeId("1.1")].samples) == 1


async def test_where_the_clock_says_the_opposite_the_node_loses_its_place(bench):
    run = drive(bench, Program({"1.1": 766_000.0}, {"1.1": 1.4}))
    await run.drive()
    assert verdict(run, "1.1") is Verdict.DISCARDED
    reason = run.history[NodeId("1.1")].reason
    assert "by the clock is slower than the baseline" in reason
    assert 'set measure = "clock"' in reason
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == NodeId("1")


async def test_where_the_clock_shows_no_gain_none_is_claimed(bench):
    program = Program({"1.1": 990_000.0}, {"1.1": 1.015})
    run = drive(bench, program)
    await run.drive()
    change = against_baseline(run.history, NodeId("1.1"), "", COUNT).over_baseline
    assert verdict(run, "1.1") is Verdict.KEPT
    words = ScoreText.of([], [change]).change_words(change, "the baseline")
    assert change.is_refuted
    assert words.startswith("no better than the baseline: 1.0 % fewer instructions than the baseline, but by the")


async def test_before_the_clock_has_spoken_the_gain_is_unconfirmed(bench):
    run = drive(bench, Program({"1.1": 900_000.0}), noise=Noise(confirm=0))
    await run.drive()
    change = against_baseline(run.history, NodeId("1.1"), "", COUNT).over_baseline
    assert change.is_confirmed is False
    assert change.by_clock is None
