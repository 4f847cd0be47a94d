"""What cannot be told apart is undecided: it is asked again when it is quiet, and a person may ask at any time."""

import itertools

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Proposal
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.judge.revisions import ask_again, undecided_nodes
from loopty.record.verdicts import Incumbents, NodeReopened
from loopty.session import hand_decisions
from loopty.show.run_status import status
from loopty.testing.fakes import ScriptedProposer, object_name

CANDIDATE = NodeId("1.1")


class Measured:
    """A baseline that varies by about 1 at first, and a candidate with these gains."""

    def __init__(self, *gains):
        self.gains = itertools.chain(gains, itertools.repeat(gains[-1]))
        self.baseline = itertools.chain((1.0, -1.0, 0.0), itertools.repeat(0.0))
        self.count = 0

    def __call__(self, trial):
        self.count += 1
        return next(self.gains if trial.node.id == CANDIDATE else self.baseline)


def run_of(bench, measured, **pools):
    proposal = Proposal("rewrite", NodeId("1"), "a change", {"x": 0.9})
    return bench(measured, proposer=ScriptedProposer([proposal]), pools=Pools(attempts=1, **pools))


async def test_a_small_gain_is_undecided_and_not_called_a_loss(bench):
    run = run_of(bench, Measured(3.0, 0.8, 0.8, 0.1), repeats=10)
    await run.drive()
    node = run.history[CANDIDATE]
    assert node.verdict is Verdict.INCONCLUSIVE
    assert "undecided: better than @1 by" in node.reason


async def test_what_is_undecided_is_measured_again_before_the_run_ends(bench):
    run = run_of(bench, Measured(3.0, 0.9, 0.9, 0.4, 0.4, 0.4, 0.4, 9.0))
    await run.drive()
    assert run.history[CANDIDATE].verdict is Verdict.KEPT
    reopened = [item.event for item in run.ledger.read() if isinstance(item.event, NodeReopened)]
    assert [event.cause for event in reopened] == [CANDIDATE]
    # Each of the two bets had its own chance to keep something that is no better.
    assert Incumbents.of(run.run, Pool.ATTEMPT).expected_false == pytest.approx(0.1)


async def test_the_run_asks_once_and_a_person_may_ask_more_often(bench):
    measured = Measured(3.0, 0.8, 0.8, 0.1)
    run = run_of(bench, measured)
    await run.drive()
    count = measured.count
    await run.drive()
    assert run.history[CANDIDATE].verdict is Verdict.INCONCLUSIVE
    assert measured.count == count
    assert undecided_nodes(run.history, 1) == []
    run.recorder.record(lambda history: ask_again(history, CANDIDATE))
    assert run.history[CANDIDATE].is_pending


async def test_without_budget_nothing_is_asked_again(bench):
    run = run_of(bench, Measured(3.0, 0.8, 0.8, 0.1), repeats=10)
    await run.drive()
    assert run.history[CANDIDATE].reopened_for == ()


async def test_the_same_edit_by_hand_leads_to_the_undecided_node(bench):
    run = run_of(bench, Measured(3.0, 0.8, 0.8, 0.1))
    await run.drive()
    found = run.history[CANDIDATE]
    files = CommittedFiles(found.commit, found.tree)
    again = Proposal("hand", NodeId("1"), "the same", {"x": 0.9})
    run.recorder.record(lambda h: decisions.add_node(h, again, files, Pool.ATTEMPT, draft=True))
    with pytest.raises(Misuse, match="which is undecided: `loopty node recheck @2` asks again"):
        hand_decisions.seal_node(run.history, NodeId("1.2"), files)


async def test_no_bet_is_on_the_measurements_that_selected_the_candidate(bench):
    run = run_of(bench, Measured(50.0, 0.8, 0.9, 1.0), repeats=12)
    await run.drive()
    pairing = run.history[CANDIDATE].pairing
    assert 50.0 not in [sample["score"] for sample in pairing.mine]
    assert [sample["score"] for sample in pairing.mine][:3] == [0.8, 0.9, 1.0]


async def test_the_noise_is_of_the_newest_results_of_the_best_node(bench):
    measured = Measured(3.0, 0.8, 0.8, 0.1)
    measured.baseline = itertools.chain((90.0, -90.0, 80.0), itertools.cycle((0.5, -0.5)))
    run = bench(measured, pools=Pools(attempts=80))
    await run.drive()
    noise = status(run.history, run.run, 0.0, lambda _: True).noise
    assert noise.node == "@1"
    assert noise.measurements == 12
    assert noise.sigma < 2


def busy(score, stalled):
    return Outcome(Ending.FINISHED, {"score": score}, stalled=stalled)


def baseline_of(bench, scores=(100.0, 101.0, 99.0), **pools):
    run = bench(lambda _: 0.0, pools=Pools(attempts=1, **pools))
    run.start("1")
    for number, score in enumerate(scores, start=1):
        run.end("1", number, busy(score, 0.01))
    proposal = Proposal("rewrite", NodeId("1"), "a change", {"x": 0.9})
    files = CommittedFiles(object_name("c"), object_name("t"))
    run.recorder.record(lambda h: decisions.add_node(h, proposal, files, Pool.ATTEMPT))
    run.start(CANDIDATE)
    return run


def test_a_result_of_a_busy_moment_is_compared_with_one_of_the_same_moment(bench):
    run = baseline_of(bench)
    run.end(CANDIDATE, 1, busy(85.0, 0.5))
    assert run.history[CANDIDATE].verdict is None
    run.end("1", 4, busy(50.0, 0.5))
    assert run.history[CANDIDATE].verdict is None  # it is better than the baseline beside it: pairs begin
    assert run.history[CANDIDATE].pairing is not None


def test_where_nothing_varies_a_busy_moment_asks_for_no_measurement(bench):
    run = baseline_of(bench, scores=(100.0, 100.0, 100.0))
    run.end(CANDIDATE, 1, busy(55.0, 0.5))
    assert run.history[CANDIDATE].verdict is Verdict.DISCARDED


def test_a_worse_result_of_a_quiet_moment_is_discarded_at_once(bench):
    run = baseline_of(bench)
    run.end(CANDIDATE, 1, busy(55.0, 0.1))
    assert run.history[CANDIDATE].verdict is Verdict.DISCARDED


def test_without_budget_a_result_of_a_busy_moment_is_undecided(bench):
    run = baseline_of(bench, repeats=2)
    run.end(CANDIDATE, 1, busy(55.0, 0.5))
    assert run.history[CANDIDATE].verdict is Verdict.INCONCLUSIVE
    assert "while others used the machine" in run.history[CANDIDATE].reason
