"""The loop over fakes: what it starts, keeps, spends and records."""

import asyncio

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.launch import SandboxError
from loopty.domain.objective import Direction, Objective
from loopty.domain.proposal import Objection, Proposal, Refusal
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.proposers.mutate import MutateProposer
from loopty.proposers.selectors.choices import BestSelector
from loopty.record.calls import Spend
from loopty.record.nodes import ProposalRefused
from loopty.record.sessions import Session
from loopty.record.trials import TrialCounts, TrialEnded, Trials, TrialStarted
from loopty.record.verdicts import Incumbents
from loopty.testing.fakes import ScriptedProposer, object_name

from .conftest import make_task


def x_of(trial):
    return trial.node.params["x"]


async def test_the_best_is_kept_and_the_budget_is_spent_exactly(bench):
    run = bench(x_of)
    finish = await run.drive()
    assert finish.sound
    assert "20 attempt trials" in finish.reason
    scores = {node.id: run.history.score(node) for node in run.history.nodes(1, Pool.ATTEMPT)}
    best = Incumbents.of(run.run, Pool.ATTEMPT).best
    assert scores[best] == max(scores.values())
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 20
    assert len(scores) == 21


async def test_the_same_seed_gives_the_same_tree_and_another_seed_another(bench):
    runs = [bench(x_of, seed=seed) for seed in (7, 7, 8)]
    for run in runs:
        await run.drive()
    assert runs[0].tree() == runs[1].tree()
    assert runs[0].tree() != runs[2].tree()


async def test_a_failed_trial_is_never_best_even_when_all_scores_are_negative(bench):
    def score(trial):
        if trial.node.id.parent and trial.node.order % 2:
            return Outcome(Ending.FAILED, reason="crashed")
        return x_of(trial) - 10

    run = bench(score)
    await run.drive()
    best = run.history[Incumbents.of(run.run, Pool.ATTEMPT).best]
    assert best.outcome.is_finished
    assert run.history.score(best) < 0
    failed = [node for node in run.history.nodes(1, Pool.ATTEMPT) if node.outcome.ending is Ending.FAILED]
    assert failed
    assert {node.verdict for node in failed} == {Verdict.DISCARDED}


async def test_lower_is_better_when_the_task_says_so(bench):
    run = bench(x_of, objective=Objective(Direction.MIN))
    await run.drive()
    best = run.history[Incumbents.of(run.run, Pool.ATTEMPT).best]
    assert run.history.score(best) == min(run.history.score(n) for n in run.history.nodes(1, Pool.ATTEMPT))


async def test_a_broken_baseline_ends_the_run_before_anything_is_spent(bench):
    run = bench(lambda _: Outcome(Ending.FAILED, reason="no such file"))
    finish = await run.drive()
    assert not finish.sound
    assert "no such file" in finish.reason
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 0


async def test_a_run_in_which_every_attempt_fails_is_not_sound(bench):
    run = bench(lambda trial: Outcome(Ending.FAILED, reason="crash") if trial.node.id.parent else 1.0)
    assert not (await run.drive()).sound


async def test_the_target_ends_the_run(bench):
    run = bench(x_of, pools=Pools(attempts=1000, target=0.8))
    finish = await run.drive()
    assert "reached the target" in finish.reason
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started < 1000


async def test_patience_ends_the_run(bench):
    run = bench(lambda _: 1.0, pools=Pools(attempts=1000, patience=5))
    finish = await run.drive()
    assert "no improvement in the last 5" in finish.reason
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 5


@pytest.mark.parametrize("width", [1, 3, 8])
async def test_no_width_exceeds_the_attempts(bench, width):
    full = asyncio.Event()

    async def pause(trial):
        if run.executor.max_running == width:
            full.set()
        if trial.node.id.parent:
            await asyncio.wait_for(full.wait(), 60)

    run = bench(x_of, pools=Pools(attempts=13), width=width, pause=pause)
    await run.drive()
    started = [item.event for item in run.ledger.read() if isinstance(item.event, TrialStarted)]
    assert len([event for event in started if event.pool is Pool.ATTEMPT]) == 14
    assert run.executor.max_running == min(width, 13)


async def test_the_control_has_its_own_pool_and_never_becomes_best(bench):
    def score(trial):
        return 100.0 if trial.node.pool is Pool.CONTROL else x_of(trial)

    run = bench(score, pools=Pools(attempts=10, control=10))
    await run.drive()
    assert run.history[Incumbents.of(run.run, Pool.ATTEMPT).best].pool is Pool.ATTEMPT
    assert run.history[Incumbents.of(run.run, Pool.CONTROL).best].pool is Pool.CONTROL
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == TrialCounts.of(run.run, Pool.CONTROL).started == 10


async def test_the_control_proposes_other_points_than_the_attempts(bench):
    run = bench(x_of, pools=Pools(attempts=5, control=5))
    await run.drive()
    attempts = {x_of_node(node) for node in run.history.nodes(1, Pool.ATTEMPT) if node.id.parent}
    control = {x_of_node(node) for node in run.history.nodes(1, Pool.CONTROL)}
    assert not attempts & control


def x_of_node(node):
    return node.params["x"]


async def test_stopping_cancels_running_trials_and_resuming_gives_the_tree_of_an_uninterrupted_run(bench):
    whole = bench(x_of)
    await whole.drive()

    async def pause(trial):
        if trial.node.order == 8 and trial.number == 1:
            loop.stop("stopped on request")

    broken = bench(x_of, pause=pause)
    loop = broken.loop()
    finish = await loop.drive()
    assert finish.resumable
    assert Trials.of(broken.run).running == {}
    assert TrialCounts.of(broken.run, Pool.ATTEMPT).started == 6
    await broken.drive()
    assert broken.tree() == whole.tree()
    ended = [item.event for item in broken.ledger.read() if isinstance(item.event, TrialEnded)]
    again = sum(TrialCounts.of(broken.run, pool).started for pool in (Pool.REPEAT, Pool.CONFIRM))
    assert sum(event.outcome.is_finished for event in ended) == 21 + again


async def test_a_trial_whose_process_died_is_cancelled_and_run_again(bench):
    run = bench(x_of, pools=Pools(attempts=5))
    run.recorder.record(lambda history: decisions.start_session(history, 1, "dead"))
    run.start("1", "dead")
    with pytest.raises(Misuse, match="driven by"):
        await run.drive(owner="me")
    run.recorder.record(lambda history: decisions.close_abandoned(history, lambda owner: owner != "dead"))
    finish = await run.drive()
    assert finish.sound
    assert run.history[NodeId("1")].losses == 1
    assert run.history[NodeId("1")].trials == 4


async def test_a_node_that_crashes_its_process_several_times_is_quarantined(bench):
    run = bench(x_of, pools=Pools(attempts=3))
    await run.loop().drive()
    proposal = Proposal("hand", NodeId("1"), "a killer", {"x": 0.123})
    from loopty.engine.protocols import CommittedFiles

    run.recorder.record(
        lambda h: decisions.add_node(
            h, proposal, CommittedFiles(object_name("c9"), object_name("t9")), Pool.ATTEMPT
        )
    )
    killer = NodeId("1.4")
    wider = Pools(attempts=4)
    for _ in range(5):
        run.start(killer, "dead", wider)
        run.recorder.record(lambda h: decisions.close_abandoned(h, lambda _: False))
    assert run.history[killer].verdict is Verdict.QUARANTINED
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 3
    with pytest.raises(Misuse, match="has its verdict"):
        run.start(killer, "me", wider)


async def test_the_same_experiment_is_not_run_twice_and_costs_no_attempt(bench):
    same = [Proposal("scripted", NodeId("1"), "same", {"x": 0.25}) for _ in range(3)]
    other = Proposal("scripted", NodeId("1"), "other", {"x": 0.75})
    run = bench(x_of, proposer=ScriptedProposer([*same, other]))
    await run.drive()
    refused = [item.event for item in run.ledger.read() if isinstance(item.event, ProposalRefused)]
    assert [event.reason for event in refused] == ["the same as @2", "the same as @2"]
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 2


async def test_a_forbidden_edit_is_refused_with_its_reason_and_costs_no_attempt(bench):
    bad = Proposal("scripted", NodeId("1"), "bad", edits={"forbidden.py": "x"})
    good = Proposal("scripted", NodeId("1"), "good", edits={"fine.py": "x"})
    run = bench(lambda _: 1.0, proposer=ScriptedProposer([bad, good]))
    await run.drive()
    (refused,) = [item.event for item in run.ledger.read() if isinstance(item.event, ProposalRefused)]
    assert refused.reason == "may not change forbidden.py"
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 1


@pytest.mark.parametrize(
    "bad",
    [
        Proposal("scripted", NodeId("1"), "half \ud800", {"x": 0.5}),
        Proposal("scripted", NodeId("1"), "x" * 3_000_000, {"x": 0.5}),
        Proposal("scripted", NodeId("1"), "bad", {"x": 10**400}),
        Proposal("scripted", NodeId("1"), "bad", edits={"half \ud800.py": "x"}),
    ],
)
async def test_a_proposal_that_cannot_be_recorded_is_refused_and_costs_no_attempt(bench, bad):
    good = Proposal("scripted", NodeId("1"), "good", {"x": 0.75})
    run = bench(x_of, proposer=ScriptedProposer([bad, good]))
    await run.drive()
    (refused,) = [item.event for item in run.ledger.read() if isinstance(item.event, ProposalRefused)]
    assert refused.reason.startswith("it cannot be recorded: ")
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 1


@pytest.mark.parametrize("score", [True, "9", None, [1], float("nan")])
async def test_a_score_that_is_no_number_is_the_failure_of_one_trial(bench, score):
    proposals = [Proposal("scripted", NodeId("1"), "change", {"x": x}) for x in (0.25, 0.75)]
    run = bench(
        lambda trial: Outcome(Ending.FINISHED, {"score": score if trial.node.params.get("x") == 0.25 else 1.0}),
        proposer=ScriptedProposer(proposals),
    )
    await run.drive()
    bad, good = (run.history[NodeId(node)].outcome for node in ("1.1", "1.2"))
    assert (bad.ending, good.ending) == (Ending.FAILED, Ending.FINISHED)
    assert bad.reason.startswith("its result cannot be recorded: metrics.score is ")


async def test_a_proposer_that_only_repeats_itself_ends_the_run(bench):
    class Stubborn:
        name = "stubborn"

        async def propose(self, ask):
            return Proposal(self.name, ask.root.id, "again", {"x": 0.5})

    run = bench(x_of, proposer=Stubborn(), pools=Pools(attempts=1000))
    finish = await run.drive()
    assert "proposals were refused, the last one because: the same as @1; is there anything left" in finish.reason


async def test_a_model_without_usable_proposals_is_not_asked_for_ever(bench):
    class Useless:
        name = "useless"

        async def propose(self, ask):
            number = ask.position
            if number == 10:
                return Proposal(self.name, ask.root.id, "once", {"x": 0.25})
            return Refusal(
                self.name, "no JSON", Objection.REPLY, (f"a{number}", f"b{number}"), index_in_reply=number % 2
            )

    run = bench(x_of, proposer=Useless(), pools=Pools(attempts=1000))
    finish = await run.drive()
    expected = "the last 40 proposals were refused after 40 model calls, the last one because: no JSON"
    assert finish.reason.startswith(expected)


async def test_proposals_for_one_file_are_measured_at_once(bench):
    together = asyncio.Event()

    async def pause(trial):
        if run.executor.max_running == 3:
            together.set()
        if trial.node.id.parent:
            await asyncio.wait_for(together.wait(), 60)

    code = "x = 1 + 2 * 3 - 4\nwhile x < 5:\n    x += 6\n"
    proposer = MutateProposer(BestSelector(), lambda _: ["a.py"], lambda *_: code)
    run = bench(lambda _: 1.0, proposer=proposer, width=3, pools=Pools(attempts=3), pause=pause)
    await run.drive()
    assert run.executor.max_running == 3


async def test_no_trial_starts_after_the_time_limit(bench):
    run = bench(x_of, pools=Pools(attempts=1000, wall_seconds=0.5))
    finish = await run.drive()
    assert "time limit" in finish.reason
    assert 0 < TrialCounts.of(run.run, Pool.ATTEMPT).started < 1000
    started = TrialCounts.of(run.run, Pool.ATTEMPT).started
    assert "time limit" in (await run.drive()).reason
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == started


async def test_the_time_limit_cancels_running_trials(bench):
    async def pause(trial):
        if trial.node.order == 3:
            await asyncio.sleep(0.3)

    run = bench(x_of, pools=Pools(attempts=1000, wall_seconds=0.25), pause=pause)
    run.ticks = iter(lambda: 0, None)
    finish = await run.drive()
    assert "time limit" in finish.reason
    endings = TrialCounts.of(run.run, Pool.ATTEMPT).endings
    assert endings.get(Ending.CANCELLED) == 1


async def test_an_error_of_the_machine_during_a_trial_is_recorded_and_raised(bench):
    def score(trial):
        if trial.node.order == 3:
            raise OSError("no space left on device")
        return x_of(trial)

    run = bench(score)
    with pytest.raises(OSError, match="no space left"):
        await run.drive()
    assert Session.of(run.run).driver == ""
    assert Trials.of(run.run).running == {}
    assert run.history[NodeId("1.2")].is_pending


async def test_a_proposer_that_pays_stops_when_the_money_is_spent_and_never_exceeds_it(bench):
    class Payer:
        name = "payer"

        async def propose(self, ask):
            call = ask.purse.reserve("evolver", 400, 0.30)
            await asyncio.sleep(0)
            ask.purse.settle(call, 350, 0.28)
            return Proposal(self.name, ask.root.id, "paid", {"x": ask.rng.random()})

    run = bench(x_of, proposer=Payer(), width=3, pools=Pools(attempts=100, money_usd=1.0))
    finish = await run.drive()
    assert "$0.3000 more would pass the limit of $1.00 (money_usd of [budget])" in finish.reason
    assert Spend.of(run.run).money_usd["evolver"] == pytest.approx(0.84)
    assert Spend.of(run.run).tokens == {"evolver": 1050}


async def test_a_failure_does_not_wait_for_another_long_trial(bench):
    async def pause(trial):
        if trial.node.order == 2:
            await asyncio.wait_for(loop._cancel.wait(), 60)
        if trial.node.order == 3:
            raise OSError("no space left on device")

    run = bench(x_of, width=2, pause=pause)
    loop = run.loop()
    with pytest.raises(OSError, match="no space left"):
        await loop.drive()
    assert Trials.of(run.run).running == {}


async def test_no_candidate_chooses_the_metric_or_its_direction(bench):
    def score(trial):
        if not trial.node.id.parent:
            return Outcome(Ending.FINISHED, {"loss": 1.0, "acc": 0.5}, {"loss": Direction.MIN})
        if trial.node.order == 2:
            return Outcome(Ending.FINISHED, {"acc": 0.6})
        return Outcome(Ending.FINISHED, {"acc": 0.4, "loss": 2.0}, {"acc": Direction.MIN, "loss": Direction.MAX})

    run = bench(score, pools=Pools(attempts=2))
    await run.drive()
    first, second = (run.history[NodeId(node)] for node in ("1.1", "1.2"))
    assert "did not report loss" in first.reason
    assert second.reason.startswith("worse: loss")
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == "1"


async def test_a_node_that_the_sandbox_cannot_run_is_quarantined_in_the_end(bench):
    def score(trial):
        if trial.node.order == 2:
            raise SandboxError("cannot mount that")
        return x_of(trial)

    run = bench(score, pools=Pools(attempts=3))
    for _ in range(5):
        with pytest.raises(SandboxError):
            await run.drive()
    assert run.history[NodeId("1.1")].verdict is Verdict.QUARANTINED
    assert (await run.drive()).sound
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 3


async def test_a_raised_target_applies_at_once(bench):
    run = bench(x_of, pools=Pools(attempts=100, target=0.6))
    assert "reached the target of 0.6" in (await run.drive()).reason
    run.task = make_task(pools=Pools(attempts=100, target=0.99999))
    assert "reached the target of 0.6" not in (await run.drive()).reason


async def test_a_new_session_asks_again_after_fifty_refusals(bench):
    class Stubborn:
        name = "stubborn"

        async def propose(self, ask):
            return Proposal(self.name, ask.root.id, "again", {"x": 0.5 if ask.position < 60 else ask.rng.random()})

    run = bench(x_of, proposer=Stubborn(), pools=Pools(attempts=5))
    assert "proposals were refused" in (await run.drive()).reason
    assert "attempt trials are spent" in (await run.drive()).reason


async def test_a_baseline_that_another_process_measures_is_misuse(bench):
    run = bench(x_of)
    run.start("1", "another")
    with pytest.raises(Misuse, match="is measuring the baseline"):
        await run.drive()
