"""Results are compared under one fingerprint, never across two."""

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Proposal
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool, Row, Verdict
from loopty.engine import budget, decisions
from loopty.engine.protocols import CommittedFiles, Trial
from loopty.engine.prune_watch import PruneWatch
from loopty.proposers.pruners import MedianPruner
from loopty.record.trials import MachineSeen, RunRebaselined, note_machine
from loopty.record.verdicts import Incumbents
from loopty.session.again import decide_rebaseline
from loopty.testing.fakes import object_name

ROOT = NodeId("1")


def finished(score, fingerprint):
    return Outcome(Ending.FINISHED, {"score": score}, fingerprint=fingerprint)


def start_run(bench):
    """Start a run with a baseline of 1.0 on the laptop."""
    run = bench(lambda _: 1.0, noise=Noise(repeat="never"))
    for name in ("laptop", "server"):
        run.recorder.record(lambda h, name=name: note_machine(h, 1, name, {"cpu": name}))
    run.start("1")
    run.end("1", 1, finished(1.0, "laptop"))
    return run


def add_node(run, x):
    proposal = Proposal("hand", ROOT, "a change", {"x": x})
    (item,) = run.recorder.record(
        lambda h: decisions.add_node(
            h, proposal, CommittedFiles(object_name(f"c{x}"), object_name(f"t{x}")), Pool.ATTEMPT
        )
    )
    return item.event.node


def measure_new(run, x, score, fingerprint):
    """Add a node and end its trial with this score; returns its verdict."""
    node = add_node(run, x)
    run.start(node)
    return run.end(node, 1, finished(score, fingerprint))[-1].event


def rebaseline(run, node, score, fingerprint):
    (item,) = run.recorder.record(lambda h: decisions.start_observation(h, node, "me", Pool.REBASE))
    run.end(node, item.event.number, finished(score, fingerprint))
    run.recorder.record(lambda _: [RunRebaselined(1, fingerprint, node)])


def test_a_result_of_another_machine_neither_wins_nor_loses(bench):
    run = start_run(bench)
    for x, score in ((0.1, 99.0), (0.2, -99.0)):
        found = measure_new(run, x, score, "server")
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "not comparable" in found.reason
        assert "cpu" in found.reason
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == ROOT


def test_a_node_can_win_on_a_machine_where_the_incumbent_was_measured(bench):
    run = start_run(bench)
    rebaseline(run, ROOT, 50.0, "server")
    assert measure_new(run, 0.1, 49.0, "server").verdict is Verdict.DISCARDED
    found = measure_new(run, 0.2, 51.0, "server")
    assert found.verdict is Verdict.KEPT
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == found.node


def test_each_machine_has_its_own_incumbent(bench):
    run = start_run(bench)
    rebaseline(run, ROOT, 50.0, "server")
    there = measure_new(run, 0.1, 60.0, "server").node
    here = measure_new(run, 0.2, 2.0, "laptop").node
    incumbents = Incumbents.of(run.run, Pool.ATTEMPT).by_fingerprint
    assert incumbents == {"laptop": here, "server": there}
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == there
    assert measure_new(run, 0.3, 3.0, "laptop").against == here


def test_the_first_result_of_a_node_does_not_change(bench):
    run = start_run(bench)
    rebaseline(run, ROOT, 50.0, "server")
    assert run.history[ROOT].outcome.metrics == {"score": 1.0}
    assert run.history[ROOT].result("server").outcome.metrics == {"score": 50.0}


def test_a_machine_is_recorded_once(bench):
    run = start_run(bench)
    run.recorder.record(lambda h: note_machine(h, 1, "laptop", {"cpu": "laptop"}))
    seen = [item.event for item in run.ledger.read() if isinstance(item.event, MachineSeen)]
    assert len(seen) == 2


def test_a_run_that_returns_to_a_machine_finds_its_incumbent_there(bench):
    run = start_run(bench)
    here = measure_new(run, 0.1, 9.0, "laptop").node
    rebaseline(run, ROOT, 50.0, "server")
    there = measure_new(run, 0.2, 60.0, "server").node
    (item,) = run.recorder.record(lambda h: decisions.start_observation(h, there, "me", Pool.REBASE))
    run.end(there, item.event.number, finished(2.0, "laptop"))
    run.recorder.record(lambda h: decide_rebaseline(h, 1, "laptop", run.task.noise))
    assert Incumbents.of(run.run, Pool.ATTEMPT).best == here


def test_the_target_is_compared_with_results_of_the_present_machine(bench):
    run = start_run(bench)
    measure_new(run, 0.1, 120.0, "laptop")
    best = Incumbents.of(run.run, Pool.ATTEMPT).best
    pools = Pools(target=100.0)
    assert budget.target_reason(run.history, run.run, pools)
    rebaseline(run, best, 50.0, "server")
    assert budget.target_reason(run.history, run.run, pools) is None


def test_results_of_another_machine_do_not_use_up_the_patience(bench):
    run = start_run(bench)
    for x in (0.1, 0.2, 0.3):
        measure_new(run, x, 99.0, "server")
    assert Incumbents.of(run.run, Pool.ATTEMPT).since_best == 0


def test_a_pruner_compares_a_trial_with_peers_of_its_own_machine_alone(bench):
    run = start_run(bench)
    for x in (0.1, 0.2, 0.3):
        measure_new(run, x, 99.0, "server")
        measure_new(run, x + 0.5, 2.0, "laptop")
    node = run.history[add_node(run, 0.9)]
    trial = Trial(node, run.history[ROOT], 1, Pool.ATTEMPT, 0)
    rows = [Row(1.0, {"score": 3.0})]

    def prune_reason(machine):
        pruner = MedianPruner(startup_trials=3)
        watch = PruneWatch(lambda: run.history, pruner, lambda node: (curve_of(node), {}), machine)
        return watch.watch(trial)(rows, {})

    assert prune_reason("laptop") is None
    assert "median 99 of 3 peers" in prune_reason("server")


def curve_of(node):
    return [Row(1.0, node.outcome.metrics)]
