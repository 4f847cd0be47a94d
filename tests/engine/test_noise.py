"""Only differences that are larger than the noise count."""

import asyncio
import contextlib
import itertools
import random

import pytest

from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.proposal import Proposal
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.judge.pairs import Rules, judge_pairs
from loopty.kit import codec
from loopty.kit.records import replace
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.node_record import Pairing, Result, ratio_noise
from loopty.record.trials import Cohorts, TrialCounts, Trials, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.testing.fakes import ScriptedProposer, object_name


def x_of(trial):
    return trial.node.params["x"]


def one_proposal(x=0.9):
    """A change of the code, which may make it vary; parameters alone do not."""
    return ScriptedProposer([Proposal("hand", NodeId("1"), "a change", {"x": x}, {"code.py": "changed"})])


class Noisy:
    """A score with noise on it; records the measured nodes."""

    def __init__(self, effect=0.0, sigma=1.0, seed=0):
        self.effect = effect
        self.sigma = sigma
        self.rng = random.Random(seed)
        self.measured = []

    def __call__(self, trial):
        self.measured.append(str(trial.node.id))
        return self.effect * (trial.node.id.parent is not None) + self.rng.gauss(0, self.sigma)


async def test_a_deterministic_benchmark_is_recognised_and_only_the_winner_is_confirmed(bench):
    run = bench(x_of)
    await run.drive()
    recorded = [item.event for item in run.ledger.read()]
    repeated = [event.node for event in recorded if isinstance(event, TrialStarted) and event.pool is Pool.REPEAT]
    kept = [event.node for event in recorded if isinstance(event, NodeJudged) and event.verdict is Verdict.KEPT]
    assert repeated == ["1", "1"]  # only parameters change, and the code repeats its results
    confirmed = [
        event.node for event in recorded if isinstance(event, TrialStarted) and event.pool is Pool.CONFIRM
    ]
    assert confirmed == [kept[-1]] * 4  # five of the winner at 5 %
    assert Cohorts.of(run.run).noise[""] == {"score": 0.0}
    assert "the same 3 times" in run.history[NodeId("1")].reason


async def test_without_repeats_each_node_is_measured_once(bench):
    noisy = Noisy()
    run = bench(noisy, noise=Noise(repeat="never"), pools=Pools(attempts=5))
    await run.drive()
    assert len(noisy.measured) == 6


async def test_the_noise_of_a_baseline_that_varies_is_measured(bench):
    noisy = Noisy()
    run = bench(noisy, pools=Pools(attempts=0))
    await run.drive()
    assert len(noisy.measured) == 3
    assert 0.1 < Cohorts.of(run.run).noise[""]["score"] < 3
    assert len(run.history[NodeId("1")].samples) == 3


async def test_a_clear_improvement_is_kept_after_three_pairs(bench):
    noisy = Noisy(effect=20.0)
    run = bench(noisy, proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    node = run.history[NodeId("1.1")]
    assert node.verdict is Verdict.KEPT
    assert node.effect.pairs == 3
    assert 15 < node.effect.amount < 25
    assert node.against == "1"


async def test_pairs_are_interleaved_and_a_coin_decides_which_node_comes_first(bench):
    firsts = []
    for seed in range(8):
        noisy = Noisy(effect=20.0, seed=seed)
        run = bench(noisy, proposer=one_proposal(), pools=Pools(attempts=1), seed=seed)
        await run.drive()
        pairs = [noisy.measured[place : place + 2] for place in range(4, len(noisy.measured), 2)]
        assert {tuple(sorted(pair)) for pair in pairs} == {("1", "1.1")}
        firsts += [pair[0] for pair in pairs]
    assert 0.2 < firsts.count("1") / len(firsts) < 0.8


async def test_a_candidate_with_a_random_score_is_not_kept_for_one_lucky_draw(bench):
    def score(trial):
        return draws.random() * 2 - 1.5 if trial.node.id.parent else 0.0

    kept = 0
    for seed in range(30):
        draws = random.Random(seed)
        run = bench(score, proposer=one_proposal(), pools=Pools(attempts=1))
        await run.drive()
        kept += run.history[NodeId("1.1")].verdict is Verdict.KEPT
    assert kept == 0


async def test_a_candidate_that_varies_and_is_always_better_is_kept(bench):
    draws = random.Random(1)
    run = bench(
        lambda trial: draws.random() + 1 if trial.node.id.parent else 0.0,
        proposer=one_proposal(),
        pools=Pools(attempts=1),
    )
    await run.drive()
    node = run.history[NodeId("1.1")]
    assert node.verdict is Verdict.KEPT
    assert node.effect.pairs >= 3


async def test_a_candidate_that_is_not_better_is_not_kept_for_one_lucky_result(bench):
    kept = 0
    for seed in range(40):
        run = bench(Noisy(seed=seed), proposer=one_proposal(), pools=Pools(attempts=1))
        await run.drive()
        kept += run.history[NodeId("1.1")].verdict is Verdict.KEPT
    assert kept <= 6  # at most two are expected; the probability of seven is one in three hundred


async def test_a_worse_candidate_costs_one_measurement(bench):
    noisy = Noisy(effect=-20.0)
    run = bench(noisy, proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    assert noisy.measured[3:] == ["1.1"]
    assert run.history[NodeId("1.1")].verdict is Verdict.DISCARDED


async def test_a_candidate_is_inconclusive_when_its_pairs_are_used_up(bench):
    noisy = Noisy(effect=20.0)
    run = bench(noisy, proposer=one_proposal(), pools=Pools(attempts=1), noise=Noise(pairs=2))
    await run.drive()
    node = run.history[NodeId("1.1")]
    assert node.verdict in (Verdict.INCONCLUSIVE, Verdict.DISCARDED)
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == "1"


async def test_a_candidate_is_inconclusive_when_all_repeats_are_spent(bench):
    run = bench(Noisy(effect=20.0), proposer=one_proposal(), pools=Pools(attempts=1, repeats=6))
    await run.drive()
    node = run.history[NodeId("1.1")]
    assert node.verdict is Verdict.INCONCLUSIVE
    assert "no repeat measurement is left" in node.reason
    assert TrialCounts.of(run.run, Pool.REPEAT).started == 6


async def test_repeats_cost_no_attempt(bench):
    run = bench(Noisy(effect=20.0), proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 1
    assert TrialCounts.of(run.run, Pool.REPEAT).started > 5


async def test_a_candidate_that_fails_when_it_is_measured_again_is_discarded(bench):
    noisy = Noisy(effect=20.0)

    def flaky(trial):
        if trial.node.id.parent and trial.pool is Pool.REPEAT:
            return Outcome(Ending.FAILED, reason="it crashed")
        return noisy(trial)

    run = bench(flaky, proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    node = run.history[NodeId("1.1")]
    assert node.verdict is Verdict.DISCARDED
    assert "it crashed" in node.reason


async def test_a_candidate_is_inconclusive_when_the_incumbent_gives_no_further_result(bench):
    noisy = Noisy(effect=20.0)

    def flaky(trial):
        if trial.pool is Pool.REPEAT and len(noisy.measured) > 3 and trial.node.id == "1":
            return Outcome(Ending.FAILED, reason="it crashed")
        return noisy(trial)

    run = bench(flaky, proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    assert run.history[NodeId("1.1")].verdict is Verdict.INCONCLUSIVE


async def test_a_deterministic_metric_decides_without_pairs_although_the_next_one_is_noisy(bench):
    noisy = Noisy()

    def score(trial):
        return Outcome(Ending.FINISHED, {"right": 1.0 + trial.node.params["x"], "ms": 10 + noisy(trial)})

    objective = Objective(metrics=(Metric("right"), Metric("ms", Direction.MIN)))
    run = bench(score, objective, proposer=one_proposal(0.9), pools=Pools(attempts=1))
    await run.drive()
    assert len(noisy.measured) == 3 + 3 + 2  # of the baseline, until it is kept, and five as the winner
    assert run.history[NodeId("1.1")].verdict is Verdict.KEPT


async def test_a_pairing_that_was_stopped_is_continued_by_the_next_session(bench):
    async def pause(trial):
        if trial.node.id == "1.1" and trial.number == 4 and not stopped:
            stopped.append(True)
            loop.stop("stopped on request")

    stopped = []
    noisy = Noisy(effect=20.0)
    run = bench(noisy, proposer=one_proposal(), pools=Pools(attempts=1), pause=pause)
    loop = run.loop()
    finish = await loop.drive()
    node = run.history[NodeId("1.1")]
    assert finish.resumable
    assert node.verdict is None
    assert node.is_pending
    before = len(node.pairing.mine)
    assert before >= 2
    await run.drive()
    node = run.history[NodeId("1.1")]
    assert node.verdict is Verdict.KEPT
    assert len(node.pairing.mine) == len(node.pairing.theirs) == node.effect.pairs
    confirmed = 2 * run.task.noise.confirm
    looks = 1
    assert len(noisy.measured[3:]) <= looks + 2 * node.effect.pairs + 1 + confirmed  # at most half a pair was lost
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 1


async def test_a_process_that_dies_in_the_middle_of_the_pairs_loses_one_measurement(bench):
    run = bench(Noisy(effect=20.0), proposer=ScriptedProposer([]), pools=Pools(attempts=1))
    proposal = Proposal("hand", NodeId("1"), "a change", {"x": 0.9})
    await run.loop()._measure_baseline()
    run.recorder.record(
        lambda h: decisions.add_node(
            h, proposal, CommittedFiles(object_name("c1"), object_name("t1")), Pool.ATTEMPT
        )
    )
    run.start("1.1", "dead")
    run.end("1.1", 1, Outcome(Ending.FINISHED, {"score": 20.0}))
    assert run.history[NodeId("1.1")].running
    run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
    assert run.history[NodeId("1.1")].is_pending
    assert run.history[NodeId("1.1")].losses == 1
    await run.drive()
    assert run.history[NodeId("1.1")].verdict is Verdict.KEPT


@pytest.mark.parametrize("width", [1, 4])
async def test_at_any_width_every_kept_node_was_compared_with_the_one_kept_before_it(bench, width):
    noisy = Noisy(sigma=0.02)

    def score(trial):
        return trial.node.params["x"] + noisy.rng.gauss(0, noisy.sigma)

    run = bench(score, pools=Pools(attempts=30), width=width)
    await run.drive()
    kept = [item.event for item in run.ledger.read() if isinstance(item.event, NodeJudged)]
    kept = [event for event in kept if event.verdict is Verdict.KEPT]
    assert len(kept) >= 2
    for before, event in itertools.pairwise(kept):
        assert event.against == before.node
        assert event.effect.amount > 0


async def test_the_tables_equal_the_fold_of_the_events(bench):
    run = bench(Noisy(effect=3.0), pools=Pools(attempts=6))
    await run.drive()
    opened = run.ledger.history()
    folded = MemoryLedger().history()
    for recorded in run.ledger.read():
        folded.apply(recorded)
    assert codec.plain(opened.runs) == codec.plain(folded.runs)
    assert [opened[node] for node in opened.ids] == [folded[node] for node in folded.ids]


def finished(score, fingerprint="", **more):
    return Outcome(Ending.FINISHED, {"score": score, **more}, fingerprint=fingerprint)


def with_baseline(bench, scores=(0.0, 0.1, -0.1, 0.05, -0.05, 0.0), fingerprint="", **how):
    """A run whose baseline gave these scores."""
    run = bench(lambda _: 0.0, **how)
    run.start("1")
    for number, score in enumerate(scores, start=1):
        run.end("1", number, finished(score, fingerprint))
    return run


def add(run, x, parent="1"):
    proposal = Proposal("hand", NodeId(parent), "a change", {"x": x})
    (item,) = run.recorder.record(
        lambda h: decisions.add_node(
            h, proposal, CommittedFiles(object_name(f"c{x}"), object_name(f"t{x}")), Pool.ATTEMPT
        )
    )
    return item.event.node


def running_trial(run):
    """The only running trial, as node and number."""
    (name,) = Trials.of(run.run).running
    node, _, number = name.partition("#")
    return NodeId(node), int(number)


def test_a_baseline_that_moves_to_another_machine_before_its_verdict_is_measured_anew_there(bench):
    run = with_baseline(bench, scores=(1.0, 1.1), fingerprint="laptop")
    run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
    run.start("1")
    for _ in range(6):
        if run.history[NodeId("1")].verdict:
            break
        run.end(*running_trial(run), finished(50.0, "server"))
    root = run.history[NodeId("1")]
    assert root.verdict is Verdict.KEPT
    assert root.outcome.fingerprint == Cohorts.of(run.run).fingerprint == "server"
    assert [sample["score"] for sample in root.samples] == [50.0] * 3


def test_a_candidate_that_moves_to_another_machine_between_measurements_gets_a_verdict(bench):
    run = with_baseline(bench, scores=(1.0, 1.0, 1.0), fingerprint="laptop")
    node = add(run, 0.5)
    run.start(node)
    run.end(node, 1, finished(2.0, "laptop"))
    run.end(*running_trial(run), finished(90.0, "server"))
    assert run.history[node].verdict is Verdict.INCONCLUSIVE
    assert "not comparable" in run.history[node].reason


def test_a_pairing_that_was_interrupted_just_after_the_incumbent_changed_is_continued(bench):
    run = with_baseline(bench)
    one = add(run, 0.5)
    run.start(one)
    run.end(one, 1, finished(10.0))
    run.end(*running_trial(run), finished(0.0))
    run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
    other = add(run, 0.6)
    run.start(other)
    run.end(other, 1, finished(5.0))
    while run.history[other].verdict is None:
        measured, number = running_trial(run)
        run.end(measured, number, finished(5.0 if measured == other else 0.0))
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == other
    run.start(one)  # now against the new incumbent
    run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
    run.start(one)
    while run.history[one].verdict is None:
        measured, number = running_trial(run)
        run.end(measured, number, finished(10.0 if measured == one else 5.0))
    assert run.history[one].verdict is Verdict.KEPT
    assert run.history[one].against == other


def test_a_half_pair_is_dropped_when_the_pairing_is_interrupted(bench):
    run = with_baseline(bench)
    node = add(run, 0.5)
    run.start(node)
    run.end(node, 1, finished(10.0))
    measured, number = running_trial(run)
    run.end(measured, number, finished(10.0 if measured == node else 0.0))
    assert len(run.history[node].pairing.mine + run.history[node].pairing.theirs) == 1
    run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
    assert run.history[node].pairing.mine == run.history[node].pairing.theirs == ()


def test_a_metric_that_is_reported_only_once_causes_no_error(bench):
    run = with_baseline(bench)
    node = add(run, 0.5)
    run.start(node)
    run.end(node, 1, finished(10.0, extra=1.0))
    while run.history[node].verdict is None:
        measured, number = running_trial(run)
        run.end(measured, number, finished(10.0 if measured == node else 0.0))
    assert run.history[node].outcome.metrics == {"score": 10.0, "extra": 1.0}


@pytest.mark.parametrize("score", [1.7e308, -1.7e308, 1e101])
def test_a_score_that_is_too_large_to_compare_is_a_failure(bench, score):
    run = with_baseline(bench)
    node = add(run, 0.5)
    run.start(node)
    run.end(node, 1, finished(score))
    assert run.history[node].outcome.ending is Ending.FAILED
    assert "too large" in run.history[node].reason


async def test_without_repeats_in_the_budget_a_single_noisy_measurement_keeps_nothing(bench):
    run = bench(Noisy(effect=20.0), proposer=one_proposal(), pools=Pools(attempts=1, repeats=0))
    await run.drive()
    assert run.history[NodeId("1.1")].verdict is Verdict.INCONCLUSIVE


def test_a_node_that_tampers_in_a_repeated_measurement_is_rejected(bench):
    run = with_baseline(bench, scores=(1.0, 1.0, 1.0))
    node = add(run, 0.5)
    run.start(node)
    run.end(node, 1, finished(2.0))
    run.end(*running_trial(run), Outcome(Ending.TAMPERED, reason="the benchmark's evaluate.py was changed"))
    assert run.history[node].verdict is Verdict.REJECTED


async def test_a_bound_on_a_metric_holds_for_every_measurement(bench):
    seen = []
    run = bench(
        lambda trial: seen.append((trial.pool, [gate.name for gate in trial.gates])) or trial.node.params["x"],
        gates=(Gate("tests", "true"), Gate("small", metric="score", maximum=5.0)),
        pools=Pools(attempts=2),
    )
    await run.drive()
    assert {(pool, tuple(names)) for pool, names in seen} == {
        (Pool.ATTEMPT, ("tests", "small")),
        (Pool.REPEAT, ("small",)),
        (Pool.CONFIRM, ("small",)),
    }


async def test_a_pairing_that_is_won_resets_the_patience_that_was_about_to_end_the_run(bench):
    noisy = Noisy(effect=20.0)
    proposals = [Proposal("hand", NodeId("1"), "a change", {"x": x / 10}) for x in range(1, 4)]

    def score(trial):
        return noisy(trial) if trial.node.id in ("1", "1.1") else -50.0

    run = bench(score, proposer=ScriptedProposer(proposals), pools=Pools(attempts=3, patience=2), width=3)
    finish = await run.drive()
    assert run.history[NodeId("1.1")].verdict is Verdict.KEPT
    assert "no improvement" not in finish.reason


async def test_resuming_finishes_an_interrupted_pairing_even_when_the_patience_is_spent(bench):
    all_run = asyncio.Event()

    async def pause(trial):
        if trial.node.id == "1.3":
            all_run.set()
        if trial.pool is Pool.REPEAT and trial.node.id == "1.3":
            loop.stop("stopped on request")
        if trial.node.id in ("1.1", "1.2"):
            await asyncio.wait_for(all_run.wait(), 60)

    noisy = Noisy(effect=20.0)
    proposals = [Proposal("hand", NodeId("1"), "a change", {"x": x / 10}) for x in range(1, 4)]

    def score(trial):
        return noisy(trial) if trial.node.id in ("1", "1.3") else -50.0

    run = bench(
        score, proposer=ScriptedProposer(proposals), pools=Pools(attempts=3, patience=2), width=3, pause=pause
    )
    loop = run.loop()
    await loop.drive()
    assert run.history[NodeId("1.3")].verdict is None
    run.executor._pause = None
    await run.drive()
    assert run.history[NodeId("1.3")].verdict is Verdict.KEPT


def test_losses_that_are_not_consecutive_quarantine_nothing(bench):
    run = with_baseline(bench, scores=(1.0,))
    for score in (1.1,):
        run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
        run.start("1")
        run.end(*running_trial(run), finished(score))
    run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
    assert run.history[NodeId("1")].losses == 2
    assert run.history[NodeId("1")].losses_in_row == 1


async def test_a_node_that_needs_no_further_trial_does_not_end_the_session(bench):
    async def pause(trial):
        if trial.pool is Pool.REPEAT and trial.node.id.parent and not stopped:
            stopped.append(True)
            loop.stop("stopped on request")

    stopped = []
    run = bench(Noisy(effect=20.0), pools=Pools(attempts=6), pause=pause)
    loop = run.loop()
    await loop.drive()
    run.task = replace(run.task, noise=Noise(repeat="never"))
    await run.drive()
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 6


async def test_a_full_disk_is_reported_and_not_taken_for_a_lost_race(bench):
    class Full:
        def __init__(self, ledger):
            self.ledger = ledger

        def __getattr__(self, name):
            return getattr(self.ledger, name)

        @contextlib.contextmanager
        def write_lock(self):
            with self.ledger.write_lock() as lock:
                yield lock
                raise Misuse("the disk is full: free some space")

    run = bench(lambda trial: trial.node.params["x"], pools=Pools(attempts=3))
    await run.loop()._measure_baseline()
    run.recorder._ledger = Full(run.ledger)
    with pytest.raises(Misuse, match="disk is full"):
        await run.loop()._search()
    assert run.run.number == 1


def test_the_stakes_follow_the_noise_of_the_incumbent_and_not_of_a_much_worse_baseline(bench):
    rng = random.Random(5)
    run = with_baseline(bench, scores=[-1000 * rng.lognormvariate(0, 0.03) for _ in range(6)])
    levels = {"1": 1000.0}

    def verdict_on(x, parent, level):
        node = add(run, x, parent)
        levels[node] = level
        run.start(node)
        while run.history[node].verdict is None:
            measured, number = running_trial(run)
            run.end(measured, number, finished(-levels[measured] * rng.lognormvariate(0, 0.03)))
        return run.history[node]

    first = verdict_on(0.1, "1", 10.0)
    assert first.verdict is Verdict.KEPT
    second = verdict_on(0.2, first.id, 5.0)
    assert second.verdict is Verdict.KEPT
    assert second.effect.pairs <= 6


async def test_a_tolerance_must_be_exceeded_with_the_stated_certainty(bench):
    objective = Objective(metrics=(Metric("score", tolerance=2.0),))
    kept = {1.8: 0, 6.0: 0}
    for effect in kept:
        for seed in range(20):
            run = bench(
                Noisy(effect=effect, seed=seed), objective, proposer=one_proposal(), pools=Pools(attempts=1)
            )
            await run.drive()
            kept[effect] += run.history[NodeId("1.1")].verdict is Verdict.KEPT
    assert kept[1.8] <= 3  # one is expected at the most
    assert kept[6.0] >= 17


async def test_a_kept_gain_lies_above_the_tolerance(bench):
    objective = Objective(metrics=(Metric("score", tolerance=2.0),))
    run = bench(Noisy(effect=20.0), objective, proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    effect = run.history[NodeId("1.1")].effect
    assert effect.amount == pytest.approx(20, abs=3)


async def test_within_the_tolerance_of_the_first_metric_the_next_one_is_decided_in_pairs(bench):
    noisy = Noisy()

    def score(trial):
        is_new = trial.node.id.parent is not None
        return Outcome(Ending.FINISHED, {"size": 10 + 0.1 * noisy(trial), "ms": 100 - 20 * is_new + noisy(trial)})

    objective = Objective(
        metrics=(Metric("size", Direction.MIN, tolerance=2.0), Metric("ms", Direction.MIN, tolerance=1.0))
    )
    run = bench(score, objective, proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    node = run.history[NodeId("1.1")]
    assert node.verdict is Verdict.KEPT
    assert node.effect.metric == "ms"


async def test_of_candidates_that_toss_a_coin_no_more_than_the_error_rate_is_kept(bench):
    def score(trial):
        return float(draws.random() < 0.5) if trial.node.id.parent else 0.5

    kept = 0
    for seed in range(200):
        draws = random.Random(seed)
        run = bench(score, proposer=one_proposal(), pools=Pools(attempts=1))
        await run.drive()
        kept += run.history[NodeId("1.1")].verdict is Verdict.KEPT
    assert kept <= 17  # ten are expected at the most


async def test_the_fast_mode_measures_fewer_candidates_again(bench):
    proposals = [Proposal("hand", NodeId("1"), "a change", {"x": x / 100}) for x in range(1, 41)]
    pairs = {"careful": 0, "fast": 0}
    for mode, seed in itertools.product(pairs, range(5)):
        noise, proposer = Noise(mode=mode, confirm=0), ScriptedProposer(proposals)
        run = bench(Noisy(seed=seed), proposer=proposer, pools=Pools(attempts=40), noise=noise)
        await run.drive()
        pairs[mode] += sum(node.pairing is not None for node in run.history.nodes(1, Pool.ATTEMPT))
    assert pairs["fast"] < pairs["careful"] / 1.5


async def test_in_fast_mode_one_clear_pair_is_enough_once_repeats_are_known(bench):
    noisy = Noisy()
    proposals = [Proposal("hand", NodeId("1"), "a change", {"x": x / 100}) for x in range(1, 60)]

    def score(trial):
        return noisy(trial) + 30.0 * (trial.node.params["x"] > 0.58)

    run = bench(score, proposer=ScriptedProposer(proposals), pools=Pools(attempts=59), noise=Noise(mode="fast"))
    await run.drive()
    best = run.history[Incumbents.of(run.run, Pool.ATTEMPT).best]
    assert best.params["x"] == 0.59
    assert best.effect.pairs == 1


async def test_a_gain_far_above_the_noise_takes_a_dozen_measurements_with_its_confirmation(bench):
    noisy = Noisy(effect=80.0, sigma=0.08)
    run = bench(noisy, proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    assert run.history[NodeId("1.1")].verdict is Verdict.KEPT
    assert len(noisy.measured) <= 3 + 1 + 6 + 6  # of the baseline, the first look, three pairs, three fresh ones


async def test_a_winner_that_tosses_a_coin_is_unmasked_at_the_end(bench):
    draws = iter([1.0, 1.0, 1.0, 0.0])

    def score(trial):
        return next(draws) if trial.node.id.parent else 0.5

    run = bench(score, proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == "1"
    assert "was kept for equal results" in run.history[NodeId("1.1")].reason


async def test_after_keeps_that_never_varied_fewer_equal_results_are_needed(bench):
    proposals = [
        Proposal("hand", NodeId("1"), "a change", {"x": x / 100}, {"a.py": f"{x}"}) for x in range(51, 81)
    ]
    run = bench(x_of, proposer=ScriptedProposer(proposals), pools=Pools(attempts=30))
    await run.drive()
    kept = [node for node in run.history.nodes(1, Pool.ATTEMPT) if node.verdict is Verdict.KEPT and node.id.parent]
    samples = [len(node.samples) for node in kept]
    assert samples[:3] == [3, 3, 3]
    assert set(samples[3:-1]) == {2}
    assert samples[-1] == 5  # the winner


async def test_a_reason_has_enough_digits_to_tell_two_scores_apart(bench):
    scores = {"1": 2.359251, "1.1": 2.359254}
    run = bench(lambda trial: scores[trial.node.id], proposer=one_proposal(), pools=Pools(attempts=1))
    await run.drive()
    assert run.history[NodeId("1.1")].reason.startswith("better: score 2.359254 against 2.359251")


def pairing_of_times(ratio, slowness, noise=0.01):
    """Pairs of a candidate that takes this share of the incumbent's time, on a machine that is this slow."""
    theirs = tuple({"seconds": 10.0 * slow} for slow in slowness)
    mine = tuple({"seconds": 10.0 * slow * ratio} for slow in slowness)
    return Pairing(NodeId("1"), {"seconds": 10.0 * noise}, {"seconds": noise}, mine, theirs)


def test_times_are_judged_by_ratios_so_that_a_slow_hour_changes_no_gain():
    metrics = (Metric("seconds", Direction.MIN),)
    rules = Rules(metrics, Noise(), affordable=True, secret="a secret")
    pairing = pairing_of_times(0.97, (1.0, 2.0, 1.0, 3.0, 1.0))
    ruling = judge_pairs(NodeId("1.1"), pairing, "@1", rules)
    assert ruling.verdict is Verdict.KEPT
    assert ruling.effect.amount == pytest.approx(0.3, rel=0.05)  # 3 % of 10 s, in the metric's own unit


@pytest.mark.parametrize(
    ("scores", "ratios"),
    [((10.0, 10.1, 9.9), True), ((1.0, -1.0, 2.0), False), ((0.1, 3.0, 0.5), False), ((5.0, 5.0, 5.0), False)],
)
def test_only_positive_scores_far_larger_than_their_noise_are_ratios(scores, ratios):
    outcome = finished(scores[-1])
    result = Result(outcome, tuple({"score": score} for score in scores))
    assert bool(ratio_noise(result)) is ratios
