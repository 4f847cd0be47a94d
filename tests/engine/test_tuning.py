"""Tune mode: the parameters of a code change are tuned on the slice, and only the promoted ones are an attempt."""

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Proposal
from loopty.domain.task import Pools
from loopty.domain.task_tables import Tune
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.judge.tuning import Tuning
from loopty.kit.records import replace
from loopty.proposers.parameters.tune_samplers import draw_near_best
from loopty.record.history import decode_event, encode_event
from loopty.record.trials import TrialCounts, TrialEnded, TrialStarted
from loopty.record.tunings import NodeTuned, SliceRecord, TunePointChosen, Tunings
from loopty.record.verdicts import Incumbents
from loopty.testing.fakes import ScriptedProposer

from .conftest import SPACE

BEST = 0.83
ROOT = NodeId("1")


def score(trial):
    """The nearer x is to the best, the better; the slice measures the same on another scale."""
    value = 1 - abs(trial.node.params["x"] - BEST)
    return 10 * value if trial.slice else value


def code_changes(count):
    return ScriptedProposer([Proposal("diff", ROOT, f"change {n}", edits={"a.py": str(n)}) for n in range(count)])


def make_bench(bench, attempts=3, trials=8, tunes=None, width=1, score=score, **more):
    made = bench(score, pools=Pools(attempts=attempts, tunes=tunes), proposer=code_changes(9), width=width, **more)
    made.tuning = Tuning(Tune("dev", trials), SPACE, draw_near_best)
    return made


def started(made, pool):
    return [e.event for e in made.ledger.read() if isinstance(e.event, TrialStarted) and e.event.pool is pool]


async def test_only_the_promoted_parameters_become_an_attempt(bench):
    made = make_bench(bench)
    await made.drive()
    nodes = [made.history[node] for node in made.history.ids if node.parent]
    assert len(nodes) == TrialCounts.of(made.run, Pool.ATTEMPT).started == 3
    assert TrialCounts.of(made.run, Pool.TUNE).started == 24
    assert all(node.tuned.trials == 8 and node.tuned.slice == "dev" for node in nodes)
    assert all(node.tuned.proposed == {"x": 0.5} for node in nodes)
    assert all(node.tuned.score > node.tuned.proposed_score for node in nodes)
    assert all(10 * node.outcome.metrics["score"] == node.tuned.score for node in nodes)
    assert len({node.params["x"] for node in nodes}) == 3, "each node has its own draws"


async def test_no_score_of_the_slice_is_ranked(bench):
    made = make_bench(bench)
    await made.drive()
    best = made.history[Incumbents.of(made.run, Pool.ATTEMPT).best]
    assert best.outcome.metrics["score"] < 1 < best.tuned.score
    assert all(max(sample["score"] for sample in made.history[node].samples) <= 1 for node in made.history.ids)


async def test_the_pool_of_tunes_limits_them_all(bench):
    made = make_bench(bench, tunes=11)
    await made.drive()
    tuned = [made.history[node].tuned for node in made.history.ids if node.parent]
    assert [found.trials if found else None for found in tuned] == [8, 3, None]
    assert tuned[1].reason == "all 11 tune trials are spent"
    assert TrialCounts.of(made.run, Pool.ATTEMPT).started == 3


async def test_code_that_gives_no_score_on_the_slice_is_not_tuned_further(bench):
    def fails(trial):
        return Outcome(Ending.FAILED, reason="no") if trial.node.id.parent else score(trial)

    made = make_bench(bench, attempts=1, score=fails)
    await made.drive()
    node = made.history[NodeId("1.1")]
    assert (node.tuned.trials, node.params, node.verdict) == (1, {"x": 0.5}, Verdict.DISCARDED)
    assert node.tuned.reason == "the proposal gives no score on the slice"


async def test_a_node_that_is_tuned_has_the_promise_of_an_attempt(bench):
    made = make_bench(bench, attempts=4, trials=3, width=3)
    await made.drive()
    assert len(list(made.history.ids)) == 1 + 4
    assert all(made.history[node].verdict for node in made.history.ids)
    assert made.executor.max_running >= 2


async def test_parameters_alone_are_not_tuned(bench):
    made = make_bench(bench)
    made.proposer = ScriptedProposer([Proposal("random", ROOT, "", {"x": 0.1})])
    await made.drive()
    assert not started(made, Pool.TUNE)
    assert made.history[NodeId("1.1")].tuned is None


async def test_the_record_of_the_slice_pairs_both_scores(bench):
    made = make_bench(bench)
    await made.drive()
    record = SliceRecord.of(made.run)
    assert (record.slice, record.tuned, record.moved) == ("dev", 3, 3)
    assert all(abs(part - 10 * whole) < 1e-9 for part, whole in record.pairs)
    assert len(record.pairs) == 3


async def test_a_kill_between_any_two_trials_changes_nothing(bench):
    whole, records = make_bench(bench, attempts=2, trials=4), []

    async def keep_record(_trial):
        records.append([item.event for item in whole.ledger.read()])

    whole.executor._pause = keep_record
    await whole.drive(owner="first")
    assert len(records) > 10
    for killed_at, known in enumerate(records):
        again = make_bench(bench, attempts=2, trials=4)
        again.ledger = type(whole.ledger)()
        again.recorder = again.new_recorder()
        again.recorder.record(lambda _, known=known: known)
        again.recorder.record(lambda history: decisions.close_abandoned(history, lambda _: False))
        await again.drive(owner="second")
        assert again.tree() == whole.tree(), killed_at
        assert points(again) == points(whole), killed_at
        assert Tunings.of(again.run, Pool.ATTEMPT).open == {}


def points(made):
    """The points that were measured to their end, in order."""
    chosen, ended = {}, []
    for item in made.ledger.read():
        match item.event:
            case TunePointChosen(node, number, params):
                chosen[node, number] = node, params["x"]
            case TrialEnded(node, number, outcome) if outcome.ending is not Ending.CANCELLED:
                ended += [chosen[node, number]] if (node, number) in chosen else []
    return ended


async def test_five_losses_in_a_row_end_the_tuning(bench):
    made = make_bench(bench, attempts=1)
    made.recorder.record(lambda history: decisions.start_session(history, 1, "me"))
    made.start("1")
    made.end("1", 1, Outcome(Ending.FINISHED, {"score": 1.0}))
    files = made.workspaces.commit(made.history[ROOT], {"a.py": "x"}, "")
    proposal = Proposal("diff", ROOT, "", edits={"a.py": "x"})
    while not made.history[ROOT].verdict:
        number = made.history[ROOT].trials
        made.end("1", number, Outcome(Ending.FINISHED, {"score": 1.0}))
    made.recorder.record(lambda history: decisions.add_node(history, proposal, files, Pool.ATTEMPT))
    for number in range(1, 6):
        made.start("1.1")
        made.recorder.record(lambda h, number=number: decisions.lose_trial(h, NodeId("1.1"), number, "killed"))
    events = [item.event for item in made.start("1.1")]
    assert [type(event) for event in events] == [NodeTuned, TrialStarted]
    assert events[0].reason == "5 tune trials in a row were lost"
    assert events[1].pool is Pool.ATTEMPT


async def test_tune_mode_that_was_turned_off_promotes_the_best_so_far(bench):
    made = make_bench(bench, attempts=1, trials=8)
    loop = made.loop()
    made.executor._pause = lambda _trial: stop_after(made, loop, 5)
    await loop.drive()
    made.tuning, made.executor._pause = None, None
    await made.drive()
    node = made.history[NodeId("1.1")]
    assert node.verdict
    assert node.tuned.reason == "[tune] was changed"
    assert 1 < node.tuned.trials < 8


async def stop_after(made, loop, count):
    if TrialCounts.of(made.run, Pool.TUNE).started >= count:
        loop.stop("enough")


DECLARED = '# loopty parameter: gain = {{ type = "float", low = 0.0, high = 2.0, default = 1.0 }}\n# {0}\n'


def declaring(count):
    edits = [{"a.py": DECLARED.format(n)} for n in range(count)]
    return ScriptedProposer([Proposal("diff", ROOT, f"change {n}", edits=one) for n, one in enumerate(edits)])


def gain_score(trial):
    """The program reads its own parameter beside the task's; without it, it is a poor one."""
    gain = trial.node.params.get("gain", 0.0)
    value = 1 - abs(gain - 1.6) - abs(trial.node.params["x"] - 0.5)
    return 10 * value if trial.slice else value


def make_declaring(bench, **more):
    made = make_bench(bench, score=gain_score, **more)
    made.proposer, made.tuning = declaring(9), Tuning(Tune("dev", 8), SPACE, draw_near_best)
    return made


async def test_a_program_declares_its_own_parameters_and_they_are_tuned(bench):
    made = make_declaring(bench)
    await made.drive()
    nodes = [made.history[node] for node in made.history.ids if node.parent]
    assert all(node.tuned.proposed == {"x": 0.5, "gain": 1.0} for node in nodes)
    assert any(node.params["gain"] != 1.0 for node in nodes)
    assert all(node.tuned.score >= node.tuned.proposed_score for node in nodes)
    assert all(10 * node.outcome.metrics["score"] == node.tuned.score for node in nodes)
    assert made.history[ROOT].params == {"x": 0.5}, "the baseline declares nothing"
    assert all(set(node.declared) == {"gain"} for node in nodes)


async def test_declared_parameters_stay_with_the_code(bench):
    made = make_declaring(bench, attempts=1)
    await made.drive()
    parent = made.history[NodeId("1.1")]
    assert parent.tuned.trials == 8
    made.proposer = ScriptedProposer(
        [
            Proposal("diff", parent.id, "its place was taken by the first attempt"),
            Proposal("diff", parent.id, "another file", edits={"b.py": "y"}),
            Proposal("random", parent.id, "the task's parameters alone", {"x": 0.25}),
            Proposal("diff", parent.id, "the file without it", edits={"a.py": "y"}),
        ]
    )
    made.task = replace(made.task, pools=Pools(attempts=4))
    made.tuning = None
    await made.drive()
    same, moved, gone = (made.history[NodeId(f"1.1.{number}")] for number in (1, 2, 3))
    assert same.params == parent.params
    assert moved.params == {"x": 0.25, "gain": parent.params["gain"]}
    assert gone.params == {"x": parent.params["x"]}
    assert gone.declared == {}


async def test_the_pool_is_never_overshot_by_declared_parameters(bench):
    made = make_declaring(bench, tunes=5, width=3)
    await made.drive()
    assert TrialCounts.of(made.run, Pool.TUNE).started <= 5


async def test_a_kill_in_a_tuning_of_declared_parameters_changes_nothing(bench):
    whole, records = make_declaring(bench, attempts=1), []

    async def keep_record(_trial):
        records.append([item.event for item in whole.ledger.read()])

    whole.executor._pause = keep_record
    await whole.drive(owner="first")
    for known in records[::3]:
        again = make_declaring(bench, attempts=1)
        again.ledger = type(whole.ledger)()
        again.recorder = again.new_recorder()
        again.recorder.record(lambda _, known=known: [decode_event(*encode_event(event)) for event in known])
        again.recorder.record(lambda history: decisions.close_abandoned(history, lambda _: False))
        await again.drive(owner="second")
        assert again.tree() == whole.tree()
        assert again.history[NodeId("1.1")].params == whole.history[NodeId("1.1")].params
