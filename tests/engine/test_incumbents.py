"""An incumbent stays measurable: its record is kept fresh, and one that fails its repeats loses its place."""

import random

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Proposal
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.engine.protocols import CommittedFiles
from loopty.judge.pairs import coin
from loopty.kit import codec
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.trials import TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged, NodeReopened, VerdictWithdrawn
from loopty.session.runs import start_run
from loopty.testing.fakes import ScriptedProposer, object_name

ROOT = NodeId("1")


def proposals(count, parent="1"):
    return ScriptedProposer(
        [Proposal("hand", NodeId(parent), "a change", {"x": (place + 1) / 100}) for place in range(count)]
    )


def best(run):
    return Incumbents.of(run.run, Pool.ATTEMPT).best


class Speeds:
    """Scores by node with noise, on a machine that loses speed after so many measurements."""

    def __init__(self, gains, slows_after=10**9, sigma=0.01, seed=0):
        self.gains = gains
        self.slows_after = slows_after
        self.sigma = sigma
        self.rng = random.Random(seed)
        self.measured = []

    def __call__(self, trial):
        self.measured.append(str(trial.node.id))
        lost = 0.05 if len(self.measured) > self.slows_after else 0.0
        return (100 + self.gains.get(str(trial.node.id), 0.0)) * (1 - lost) * (1 + self.rng.gauss(0, self.sigma))


async def test_the_record_is_the_median_of_the_newest_five(bench):
    run = bench(Speeds({}), proposer=proposals(40), pools=Pools(attempts=40))
    await run.drive()
    root = run.history[ROOT]
    assert root.outcome.metrics["score"] == sorted(sample["score"] for sample in root.samples[-5:])[2]


async def test_after_several_lost_first_looks_the_incumbent_is_measured_once_more(bench):
    speeds = Speeds(dict.fromkeys((f"1.{place}" for place in range(1, 9)), -20.0))
    run = bench(speeds, proposer=proposals(8), pools=Pools(attempts=8))
    await run.drive()
    assert speeds.measured[3:] == ["1.1", "1.2", "1.3", "1.4", "1", "1.5", "1.6", "1.7", "1.8", "1"]


@pytest.mark.parametrize("seed", range(4))
async def test_a_gain_is_found_on_a_machine_that_has_become_slower(bench, seed):
    gains = dict.fromkeys((f"1.{place}" for place in range(1, 12)), -20.0) | {"1.12": 4.0}
    run = bench(Speeds(gains, slows_after=9, seed=seed), proposer=proposals(12), pools=Pools(attempts=12))
    await run.drive()
    assert run.history[NodeId("1.12")].verdict is Verdict.KEPT


async def test_where_nothing_varies_no_record_grows_stale(bench):
    speeds = Speeds(dict.fromkeys((f"1.{place}" for place in range(1, 9)), -20.0), sigma=0.0)
    run = bench(speeds, proposer=proposals(8), pools=Pools(attempts=8))
    await run.drive()
    assert len(speeds.measured) == 3 + 8


class UnbeatableIncumbent:
    """Node 1.1 is better at first, and crashes from then on; 1.2 loses to its record, 1.3 is far better."""

    def __init__(self, seed=0, crash=Ending.FAILED):
        self.rng = random.Random(seed)
        self.crash = crash
        self.measured = set()

    def __call__(self, trial):
        self.measured.add(trial.node.id)
        if trial.node.id == "1.1" and "1.2" in self.measured:
            return Outcome(self.crash, reason="it fell over")
        level = {"1.1": 110.0, "1.2": 105.0, "1.3": 1000.0}.get(str(trial.node.id), 100.0)
        return level * (1 + self.rng.gauss(0, 0.01))


@pytest.mark.parametrize("crash", [Ending.FAILED, Ending.TIMED_OUT])
async def test_an_incumbent_that_fails_its_repeats_loses_its_place(bench, crash):
    run = bench(UnbeatableIncumbent(crash=crash), proposer=proposals(3), pools=Pools(attempts=3))
    await run.drive()
    failed = run.history[NodeId("1.1")]
    assert failed.verdict is Verdict.DISCARDED
    assert "as the incumbent" in failed.reason
    withdrawn = [item.event.node for item in run.ledger.read() if isinstance(item.event, VerdictWithdrawn)]
    assert withdrawn == ["1.1"]
    assert run.workspaces.concluded.count("1.1") == 2
    assert best(run) == "1.3"
    assert run.history[NodeId("1.3")].verdict is Verdict.KEPT


async def test_what_lost_only_to_such_an_incumbent_comes_back(bench):
    def score(trial):
        return 99.0 + rng.gauss(0, 1) if trial.node.id == "1.3" else unbeatable(trial)

    rng, unbeatable = random.Random(1), UnbeatableIncumbent()
    run = bench(score, proposer=proposals(6), pools=Pools(attempts=6))
    await run.drive()
    reopened = [item.event.node for item in run.ledger.read() if isinstance(item.event, NodeReopened)]
    assert "1.2" in reopened
    assert run.history[NodeId("1.2")].verdict is Verdict.KEPT
    assert run.history[NodeId("1.2")].against == "1"
    assert best(run) == "1.2"


async def test_the_fold_of_such_a_night_is_the_same_from_events_and_from_tables(bench):
    run = bench(UnbeatableIncumbent(), proposer=proposals(6), pools=Pools(attempts=6))
    await run.drive()
    opened, folded = run.ledger.history(), MemoryLedger().history()
    for recorded in run.ledger.read():
        folded.apply(recorded)
    assert codec.plain(opened.runs) == codec.plain(folded.runs)
    assert [opened[node] for node in opened.ids] == [folded[node] for node in folded.ids]


def test_a_kept_node_that_an_older_ledger_judges_again_hands_over_to_the_one_that_it_beat(bench):
    run = bench(lambda trial: trial.node.params["x"])
    run.start("1")
    while run.history[ROOT].verdict is None:
        run.end("1", run.history[ROOT].trials, Outcome(Ending.FINISHED, {"score": 0.0}))
    for place in (1, 2, 3):
        proposal = Proposal("hand", ROOT, "a change", {"x": place / 10})
        files = CommittedFiles(object_name(f"c{place}"), object_name(f"t{place}"))
        run.recorder.record(lambda h, p=proposal, f=files: decisions.add_node(h, p, f, Pool.ATTEMPT))
        run.start(f"1.{place}")
        while run.history[NodeId(f"1.{place}")].verdict is None:
            number = run.history[NodeId(f"1.{place}")].trials
            run.end(f"1.{place}", number, Outcome(Ending.FINISHED, {"score": float(place)}))
    assert best(run) == "1.3"
    for node in ("1.2", "1.3"):
        against = run.history[NodeId(node)].against
        again = NodeJudged(NodeId(node), Verdict.REJECTED, "was found to cheat", against)
        run.recorder.record(lambda _, again=again: [again])
    assert best(run) == "1.1"
    assert run.history[NodeId("1.1")].verdict is Verdict.KEPT


async def test_the_order_within_pairs_is_drawn_from_the_secret_of_the_run(bench):
    def starts(run):
        events = (item.event for item in run.ledger.read())
        return [event.node for event in events if isinstance(event, TrialStarted) and event.incumbent]

    async def order(secret):
        run = bench(Speeds({"1.1": 50.0}), proposer=proposals(1), pools=Pools(attempts=1), secret=secret)
        await run.drive()
        return starts(run)

    assert await order("one") == await order("one")
    assert len({tuple(await order(str(secret))) for secret in range(8)}) > 1


def test_each_run_draws_a_secret_of_its_own(bench):
    def started(secret):
        task, files = bench(lambda _: 1.0).task, CommittedFiles("c0", "t0")
        return start_run(MemoryLedger().history(), task, "", "", files, "first", secret=secret)[0].secret

    assert len({started(None) for _ in range(5)}) == 5
    assert all(len(started(None)) == 32 for _ in range(2))
    assert started("chosen") == "chosen"


def test_the_coin_is_fair():
    tosses = [coin("secret", "1.1", "1", pair) for pair in range(2000)]
    assert 900 < sum(tosses) < 1100
