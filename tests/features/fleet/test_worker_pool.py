"""The pool under faults: no trial is lost, none counts twice, and a lost worker is nobody's failure."""

import asyncio
import itertools
import random
import time
from collections import Counter

import pytest

from loopty.domain.declared_types import misfit
from loopty.domain.model import TrialLosesWorkers, WorkerOutage
from loopty.domain.trial import Ending, Machine, Pool, Row
from loopty.features.fleet import pool
from loopty.features.fleet.messages import LinkLost, TrialReport, message, pack_report
from loopty.record.workers import LeaseLost, TrialLeased, WorkerDrifted, WorkerJoined, WorkerLeft
from loopty.testing.executor_suite import WAIT_SECONDS, never_prune, run_until_cancelled, score_x, trial_of
from loopty.testing.fakes import outcome_of_score
from loopty.version import __version__

from ...harnesses.pool_harness import HERE, TOKEN, FunctionBench, PoolHarness


@pytest.fixture
async def harness():
    made = PoolHarness()
    yield made
    await made.close()


def kinds(harness, *classes):
    return [type(event) for event in harness.events if isinstance(event, classes)]


def start(harness, trial, cancel=None):
    return asyncio.create_task(harness.pool.execute(trial, never_prune, cancel or asyncio.Event()))


async def wait_until(condition):
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - it is true in another task, which knows no event
            await asyncio.sleep(0.005)


async def wait_for_lease(harness, count=1):
    await wait_until(lambda: len(kinds(harness, TrialLeased)) >= count)


class RawWorker:
    """A worker that does only what a test says."""

    def __init__(self, link, order):
        self.link, self.lease = link, order.fields["lease"]

    @classmethod
    async def join(cls, harness, facts=HERE):
        link, _ = await harness.connect()
        await link.send("hello", name="raw", token=TOKEN, version=__version__)
        assert (await link.receive(0, 1 << 20)).kind == "welcome"
        await link.send("ready", facts=facts, sandbox="none")
        if not harness.pool.machine.facts:
            await harness.pool.wait_for_worker(lambda _: True)
            harness.pool.choose_machine(Machine(facts))
            harness.pool.open_cohort(Machine(facts).fingerprint)
        return link

    @classmethod
    async def take(cls, link):
        async with asyncio.timeout(WAIT_SECONDS):
            while (frame := await link.receive(1 << 20, 1 << 20)).kind != "trial":
                pass
        return cls(link, frame)

    async def end(self, score, lease=None):
        fields, block = pack_report(TrialReport(outcome_of_score(score)))
        await self.link.send("end", block, lease=lease or self.lease, **fields)


async def test_the_trial_of_a_killed_worker_goes_to_another(harness):
    first = await harness.add_worker(run_until_cancelled, name="first")
    outcome = start(harness, trial_of(1, 4.0))
    await wait_for_lease(harness)
    await first.kill()
    await harness.add_worker(score_x, name="second")
    assert (await asyncio.wait_for(outcome, WAIT_SECONDS)).metrics == {"score": 4.0}
    assert kinds(harness, TrialLeased, LeaseLost) == [TrialLeased, LeaseLost, TrialLeased]
    assert kinds(harness, WorkerJoined, WorkerLeft) == [WorkerJoined, WorkerLeft, WorkerJoined]


async def send_until_lost(worker):
    """The first messages may still fit into the socket."""
    for _ in range(1000):
        await worker.end(99.0)
        await worker.link.receive(1 << 20, 1 << 20)


async def test_a_silent_worker_loses_its_trial_and_its_late_result_counts_for_nothing():
    harness = PoolHarness(lease_seconds=0.4)
    frozen = await RawWorker.join(harness)
    outcome = start(harness, trial_of(1, 4.0))
    late = await RawWorker.take(frozen)
    await wait_until(lambda: LeaseLost in kinds(harness, LeaseLost))
    await harness.add_worker(score_x)
    with pytest.raises(LinkLost):
        await send_until_lost(late)
    assert (await asyncio.wait_for(outcome, WAIT_SECONDS)).metrics == {"score": 4.0}
    (lost,) = [event for event in harness.events if isinstance(event, LeaseLost)]
    assert "silent" in lost.reason
    await harness.close()


async def test_a_result_that_is_delivered_twice_counts_once(harness):
    link = await RawWorker.join(harness)
    first = start(harness, trial_of(1))
    worker = await RawWorker.take(link)
    await worker.end(1.0)
    await worker.end(2.0)
    assert (await asyncio.wait_for(first, WAIT_SECONDS)).metrics == {"score": 1.0}
    second = start(harness, trial_of(2))
    again = await RawWorker.take(link)
    await again.end(3.0, lease=worker.lease)  # that of the trial before
    await again.end(4.0)
    assert (await asyncio.wait_for(second, WAIT_SECONDS)).metrics == {"score": 4.0}
    assert harness.pool.members[0].refused_results == 2


async def test_a_result_after_a_cancel_counts_for_nothing(harness):
    link, cancel = await RawWorker.join(harness), asyncio.Event()
    outcome = start(harness, trial_of(1), cancel)
    worker = await RawWorker.take(link)
    cancel.set()
    await worker.end(1.0)
    assert (await asyncio.wait_for(outcome, WAIT_SECONDS)).ending is Ending.CANCELLED


async def test_a_worker_that_speaks_nonsense_is_sent_away(harness):
    link = await RawWorker.join(harness)
    outcome = start(harness, trial_of(1, 4.0))
    worker = await RawWorker.take(link)
    await link.send("end", b"xx", lease=worker.lease, outcome={"ending": "splendid"}, files=[["../x", 2]])
    await harness.add_worker(score_x)
    assert (await asyncio.wait_for(outcome, WAIT_SECONDS)).metrics == {"score": 4.0}
    assert not harness.files.get("1.1", {}).keys() & {"../x", "x"}


@pytest.mark.parametrize(
    "outcome",
    [
        *({"ending": "finished", "metrics": {"score": score}} for score in (True, "9", None, [1], 10**400)),
        *({"ending": "finished", "metrics": metrics} for metrics in (None, [1], "x")),
        {"ending": "failed", "seconds": -1e300},
        {"ending": "failed", "reason": 7},
        {"ending": "failed", "reason": "half \ud800"},
        {"ending": ["failed"]},
        [1],
        None,
    ],
)
async def test_a_report_that_cannot_be_recorded_is_refused_and_the_trial_goes_to_another(harness, outcome):
    link = await RawWorker.join(harness)
    result = start(harness, trial_of(1, 4.0))
    worker = await RawWorker.take(link)
    await link.send("end", lease=worker.lease, outcome=outcome, files=[])
    await harness.add_worker(score_x)
    assert (await asyncio.wait_for(result, WAIT_SECONDS)).metrics == {"score": 4.0}
    (loss,) = (event for event in harness.events if isinstance(event, LeaseLost))
    assert misfit(loss) is None


async def test_a_long_reason_of_a_worker_is_cut(harness):
    link = await RawWorker.join(harness)
    result = start(harness, trial_of(1, 4.0))
    worker = await RawWorker.take(link)
    await link.send("end", lease=worker.lease, outcome={"ending": "failed", "reason": "x" * 3_000_000}, files=[])
    assert (await asyncio.wait_for(result, WAIT_SECONDS)).reason == "x" * 1_999 + "…"


@pytest.mark.parametrize("row", [{"step": "1", "metrics": {}}, {"step": 1, "metrics": {"a": True}}, {}, 7])
async def test_metrics_that_are_no_numbers_are_refused(harness, row):
    link = await RawWorker.join(harness)
    result = start(harness, trial_of(1, 4.0))
    worker = await RawWorker.take(link)
    await link.send("rows", lease=worker.lease, rows=[row], directions={})
    await harness.add_worker(score_x)
    assert (await asyncio.wait_for(result, WAIT_SECONDS)).metrics == {"score": 4.0}


@pytest.mark.parametrize(
    "files", [[["a", 1], ["a/b", 1]], [["é" * 200, 2]], [["a/" * 2_000 + "b", 2]], [["a", True]]]
)
async def test_files_that_no_folder_can_hold_are_refused(harness, files):
    link = await RawWorker.join(harness)
    result = start(harness, trial_of(1, 4.0))
    worker = await RawWorker.take(link)
    await link.send("end", b"xx", lease=worker.lease, outcome={"ending": "failed"}, files=files)
    await harness.add_worker(score_x)
    assert (await asyncio.wait_for(result, WAIT_SECONDS)).metrics == {"score": 4.0}


@pytest.mark.parametrize("token", ["half \ud800", 7, None])
async def test_a_token_that_is_no_text_opens_no_door(harness, token):
    link, _ = await harness.connect()
    await link.send("hello", name="raw", token=token, version=__version__)
    assert await asyncio.wait_for(harness.tasks[-1], WAIT_SECONDS)
    assert not harness.pool.members


async def test_a_worker_does_not_count_its_own_changes_of_pace(harness):
    await RawWorker.join(harness, {**HERE, pool.PACE: "many"})
    await wait_until(lambda: harness.pool.members)
    harness.pool.note_drift(harness.pool.members[0].name, "slower")
    assert harness.pool.members[0].machine.facts[pool.PACE] == "1"


async def test_a_worker_that_sends_metrics_without_end_is_sent_away(harness, monkeypatch):
    monkeypatch.setattr(pool, "MOST_ROWS", 100)
    link = await RawWorker.join(harness)
    outcome = start(harness, trial_of(1, 4.0))
    worker = await RawWorker.take(link)
    rows = message([Row(float(step), {"loss": 1.0}) for step in range(60)])
    for _ in range(2):
        await link.send("rows", lease=worker.lease, rows=rows, directions={})
    await harness.add_worker(score_x)
    assert (await asyncio.wait_for(outcome, WAIT_SECONDS)).metrics == {"score": 4.0}
    (loss,) = (event for event in harness.events if isinstance(event, LeaseLost))
    assert "more than 100 rows" in loss.reason


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "a//b"])
async def test_files_of_a_report_stay_below_its_folder(harness, name):
    link = await RawWorker.join(harness)
    outcome = start(harness, trial_of(1, 4.0))
    worker = await RawWorker.take(link)
    fields, _ = pack_report(TrialReport(outcome_of_score(1.0)))
    await link.send("end", b"xx", lease=worker.lease, **{**fields, "files": [[name, 2]]})
    await harness.add_worker(score_x)
    assert (await asyncio.wait_for(outcome, WAIT_SECONDS)).metrics == {"score": 4.0}


async def test_a_trial_that_kills_its_workers_ends_the_session_and_not_the_pool(harness):
    outcome = None
    for number in range(3):
        worker = await harness.add_worker(run_until_cancelled)
        outcome = outcome or start(harness, trial_of(1))
        await wait_for_lease(harness, number + 1)
        await worker.kill()
    with pytest.raises(TrialLosesWorkers, match="lost 3 workers in a row"):
        await asyncio.wait_for(outcome, WAIT_SECONDS)


async def test_without_workers_a_trial_waits_and_then_says_why():
    harness = PoolHarness(wait_seconds=0.2)
    with pytest.raises(WorkerOutage, match="no worker has joined"):
        await harness.pool.execute(trial_of(1), never_prune, asyncio.Event())
    harness.pool.exhaustion = lambda: "/scratch/a: in use"
    with pytest.raises(WorkerOutage, match="/scratch/a: in use"):
        await harness.pool.execute(trial_of(1), never_prune, asyncio.Event())


async def test_a_worker_that_nothing_can_be_sent_to_is_not_taken_again(harness):
    await harness.add_worker(score_x)
    await harness.add_worker(score_x)
    broken = harness.pool.members[0]
    broken._link.close()  # nobody who reads from it has noticed yet
    outcome = await harness.pool.execute(trial_of(1, 4.0), never_prune, asyncio.Event())
    assert outcome.metrics == {"score": 4.0}
    assert len(kinds(harness, LeaseLost)) == 1
    assert broken.lost_reason


async def test_a_machine_of_another_kind_gets_no_trial_before_the_incumbent_was_measured_there(harness):
    await harness.add_worker(run_until_cancelled)
    offered = []
    harness.pool.on_cohort = offered.append
    slow = Machine({"cpu": "slow"})
    await harness.add_worker(score_x, slow.facts)
    assert offered == [slow]
    cancel = asyncio.Event()
    trials = [start(harness, trial_of(number, 1.0), cancel) for number in (1, 2)]
    await wait_for_lease(harness)
    rebase = await harness.pool.execute(
        trial_of(3, 5.0, slow.fingerprint, Pool.REBASE), never_prune, asyncio.Event()
    )
    assert rebase.fingerprint == slow.fingerprint
    assert not any(trial.done() for trial in trials)
    assert harness.pool.width == 1
    harness.pool.open_cohort(slow.fingerprint)
    assert harness.pool.width == 2
    done, _ = await asyncio.wait(trials, return_when=asyncio.FIRST_COMPLETED, timeout=WAIT_SECONDS)
    assert [trial.result().fingerprint for trial in done] == [slow.fingerprint]
    cancel.set()
    await asyncio.wait(trials)


async def test_a_repeat_stays_in_the_cohort_of_its_node(harness):
    await harness.add_worker(score_x)
    slow = Machine({"cpu": "slow"})
    await harness.add_worker(score_x, slow.facts)
    harness.pool.open_cohort(slow.fingerprint)
    for machine in (slow, Machine(HERE), slow):
        trial = trial_of(1, 1.0, machine.fingerprint, Pool.REPEAT)
        outcome = await harness.pool.execute(trial, never_prune, asyncio.Event())
        assert outcome.fingerprint == machine.fingerprint


@pytest.mark.parametrize(("stated", "widths"), [(None, [1, 2, 3, 2]), (2, [1, 2, 2, 2]), (9, [1, 2, 3, 2])])
async def test_the_width_follows_the_workers_up_to_what_the_user_said(stated, widths):
    harness, seen = PoolHarness(most_trials=stated), []
    for _ in range(3):
        worker = await harness.add_worker(run_until_cancelled)
        seen.append(harness.pool.width)
    await worker.kill()
    await wait_until(lambda: len(harness.pool.members) == 2)
    assert [*seen, harness.pool.width] == widths
    await harness.close()


@pytest.mark.parametrize(
    ("greeting", "refusal"),
    [
        ({"token": "wrong", "version": __version__}, "URL"),
        ({"version": __version__}, "URL"),
        ({"token": TOKEN, "version": "0.0.0"}, "same version"),
    ],
)
async def test_who_does_not_belong_here_is_refused(harness, greeting, refusal):
    link, _ = await harness.connect()
    await link.send("hello", name="stranger", **greeting)
    answer = await link.receive(0, 1 << 16)
    assert answer.kind == "refused"
    assert refusal in answer.text("reason")
    assert not harness.pool.members


async def test_a_stranger_cannot_send_much(harness):
    link, _ = await harness.connect()
    await link.send("hello", name="x" * 100_000, token=TOKEN, version=__version__)
    with pytest.raises(LinkLost):
        await asyncio.wait_for(link.receive(0, 1 << 20), WAIT_SECONDS)


async def test_a_worker_sees_its_trial_and_nothing_else(harness):
    link = await RawWorker.join(harness)
    cancel = asyncio.Event()
    start(harness, trial_of(1, 1.0), cancel)
    async with asyncio.timeout(WAIT_SECONDS):
        while (frame := await link.receive(1 << 20, 1 << 20)).kind != "trial":
            pass
    assert set(frame.fields) == {"lease", "order"}
    assert set(frame.fields["order"]) == {"node", "number", "pool", "seed", "token", "gates", "params"}
    cancel.set()


async def test_a_worker_whose_clock_is_wrong_is_like_any_other(monkeypatch):
    harness = PoolHarness(lease_seconds=2.0)
    clocks = itertools.cycle([0.0, 4e9, -1e6])
    monkeypatch.setattr(time, "time", lambda: next(clocks))
    await harness.add_worker(score_x)
    for number in range(1, 6):
        outcome = await harness.pool.execute(trial_of(number, 1.0), never_prune, asyncio.Event())
        assert outcome.is_finished
    assert kinds(harness, LeaseLost, WorkerLeft) == []
    await harness.close()


async def test_a_worker_that_is_slow_to_write_and_read_keeps_its_lease(monkeypatch):
    harness, report = PoolHarness(lease_seconds=0.8), FunctionBench.report

    def read_slowly(self, trial, outcome):
        time.sleep(2.0)
        return report(self, trial, outcome)

    monkeypatch.setattr(FunctionBench, "report", read_slowly)
    await harness.add_worker(score_x)
    assert (await harness.pool.execute(trial_of(1, 1.0), never_prune, asyncio.Event())).is_finished
    assert harness.files["1.1"] == {"logs/stdout.log": b"ran 1.1\n"}
    assert kinds(harness, LeaseLost) == []
    await harness.close()


async def test_a_random_night_loses_no_trial_and_counts_none_twice(monkeypatch):
    """Workers are killed, silenced and added at random; a checker reads the record afterwards."""
    monkeypatch.setattr(pool, "_MOST_LOSSES", 1000)
    rng, harness, runs = random.Random(5), PoolHarness(lease_seconds=0.5), Counter()

    async def evaluate(trial, on_metrics, cancel):
        await asyncio.sleep(rng.random() * 0.01)
        outcome = await score_x(trial, on_metrics, cancel)
        runs[trial.node.id] += 1
        return outcome

    for _ in range(3):
        await harness.add_worker(evaluate)
    trials = [start(harness, trial_of(number, float(number))) for number in range(1, 81)]
    while not all(trial.done() for trial in trials):
        await asyncio.sleep(rng.random() * 0.02)
        victim = rng.choice(harness.workers)
        match rng.randrange(4):
            case 0:
                await victim.kill()
            case 1:
                victim.peer.close()  # the network breaks: neither end has ended
            case 2 if len(harness.pool.members) > 1:
                victim.task.cancel()  # it stops to speak, and its connection stays
        if len(harness.pool.members) < 3:
            await harness.add_worker(evaluate)
    outcomes = [trial.result() for trial in trials]
    assert [outcome.metrics["score"] for outcome in outcomes] == [float(number) for number in range(1, 81)]
    check_leases(harness.events, {f"1.{number}" for number in range(1, 81)})
    assert len(runs) == 80
    await harness.close()


def check_leases(events, nodes):
    """Each trial has one lease that was not lost, its last; no worker holds two; every lease is its own."""
    open_leases, holders, leases = {}, {}, set()
    for event in events:
        match event:
            case TrialLeased(node, _, worker, lease):
                assert node not in open_leases, f"{node} was given to two workers at once"
                assert lease not in leases
                leases.add(lease)
                open_leases[node] = lease
                holders[worker] = node
            case LeaseLost(node, _, lease, _):
                assert open_leases.pop(node) == lease
    assert set(open_leases) == nodes


async def test_while_nothing_can_be_recorded_workers_wait_and_running_trials_go_on(harness):
    await harness.add_worker(score_x)
    running = start(harness, trial_of(1))
    assert (await running).is_finished
    harness.is_ledger_there.clear()
    link, _ = await harness.connect()
    await link.send("hello", name="late", token=TOKEN, version=__version__)
    assert (await link.receive(0, 1 << 20)).kind == "welcome"
    await link.send("ready", facts=HERE, sandbox="none")
    waits = start(harness, trial_of(2))
    before = len(harness.events)
    for _ in range(200):
        await asyncio.sleep(0)
    assert not waits.done()
    assert (len(harness.events), len(harness.pool.members)) == (before, 1)
    harness.is_ledger_there.set()
    assert (await asyncio.wait_for(waits, WAIT_SECONDS)).is_finished
    await wait_until(lambda: len(harness.pool.members) == 2)
    assert kinds(harness, WorkerJoined) == [WorkerJoined] * 2


async def test_a_worker_that_has_changed_gets_no_trial_until_the_incumbent_was_measured_there(harness):
    await harness.add_worker(score_x)
    [member] = harness.pool.members
    harness.pool.open_cohort(member.fingerprint)
    offered, before = [], member.fingerprint
    harness.pool.on_cohort = offered.append
    harness.pool.note_drift(member.name, "score of 1.2 was 10 there and is 8 now")
    [drifted] = [event for event in harness.events if isinstance(event, WorkerDrifted)]
    assert (drifted.worker, drifted.fingerprint) == (member.name, member.fingerprint)
    assert [machine.fingerprint for machine in offered] == [member.fingerprint] != [before]
    assert "has changed: score of 1.2" in harness.said[-1]
    assert (harness.pool.has_worker(before), harness.pool.has_worker(member.fingerprint)) == (False, True)
    waits = start(harness, trial_of(1))
    measured = await start(harness, trial_of(2, cohort=member.fingerprint))
    assert (measured.fingerprint, waits.done()) == (member.fingerprint, False)
    harness.pool.open_cohort(member.fingerprint)
    assert (await asyncio.wait_for(waits, WAIT_SECONDS)).fingerprint == member.fingerprint
    harness.pool.note_drift(member.name, "again")
    assert len({before, *(machine.fingerprint for machine in offered)}) == 3
