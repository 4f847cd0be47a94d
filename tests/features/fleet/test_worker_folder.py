"""What a worker keeps between trials, and what it does not."""

import os

import pytest

from loopty.domain.errors import LooptyError, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.features.fleet.messages import FileChange, Frame, LinkLost, WorkerOrder, message
from loopty.features.fleet.pool_session import TrialPacking
from loopty.features.fleet.worker import WorkerFolder
from loopty.features.fleet.worker_client import _read_welcome
from loopty.kit import codec
from loopty.kit.records import replace
from loopty.session.context import CampaignContext


@pytest.fixture
def packing(code_place):
    code_place.loopty("run", "1")
    context = CampaignContext.open(code_place.top, print)
    return TrialPacking(context, 1, context.rig(unsafe=False, run=1))


def unpacked(folder):
    """Files that hold objects outside packs."""
    return list(folder.glob("bases/*/.git/objects/??/*"))


def run_changed_trial(bench, content):
    change = FileChange("change.txt", len(content), "100644")
    order = WorkerOrder(str(NodeId("1.1")), 1, Pool.ATTEMPT, 0, "token", changes=(change,))
    trial = bench.trial(order, content)
    assert bench.repository.content(trial.node.commit, "change.txt") == content
    return trial


def test_the_commit_of_a_trial_goes_with_its_report(packing, tmp_path):
    folder = WorkerFolder(tmp_path, trust=False, say=print)
    folder.add_base(packing.package, packing.base())
    assert not (tmp_path / "bases").stat().st_mode & 0o007, "the files are no other user's to read"
    bench = folder.bench(packing.package)
    for size in (10, 2_000_000, 10):  # large objects are handled otherwise than small ones
        trial = run_changed_trial(bench, b"x" * size)
        assert unpacked(tmp_path)
        bench.report(trial, Outcome(Ending.FINISHED, {"score": 1.0}))
        assert not unpacked(tmp_path)
    assert bench.repository.files(bench.base.commit)


def test_what_a_killed_worker_left_goes_when_the_next_one_starts(packing, tmp_path):
    folder = WorkerFolder(tmp_path, trust=False, say=print)
    folder.add_base(packing.package, packing.base())
    bench = folder.bench(packing.package)
    run_changed_trial(bench, b"never reported")
    assert unpacked(tmp_path)
    packs = list(tmp_path.glob("bases/*/.git/objects/pack/*.pack"))
    folder.bench(packing.package)
    assert not unpacked(tmp_path)
    assert list(tmp_path.glob("bases/*/.git/objects/pack/*.pack")) == packs


def test_a_worker_keeps_the_baselines_that_it_used_last(packing, tmp_path):
    folder = WorkerFolder(tmp_path, trust=False, say=print)
    for number in range(12):
        base = tmp_path / "bases" / f"{number:040x}"
        (base / ".git").mkdir(parents=True)
        os.utime(base, (number, number))
    folder.add_base(packing.package, packing.base())
    kept = {packing.package.tree, *(f"{number:040x}" for number in range(5, 12))}
    assert {path.name for path in (tmp_path / "bases").iterdir()} == kept


LIES = [
    {"node": "1./../../../../out"},
    {"node": "../../out"},
    {"node": "1.\ud800"},
    {"node": 7},
    {"number": "../../out"},
    {"pool": "../out"},
    {"token": ["x"]},
    {"slice": 3},
    {"seed": "x"},
    {"gates": [{"name": "g", "command": 3}]},
    {"params": {"x": [1]}},
    {"changes": [{"path": "../out", "size": 1, "mode": "100644"}]},
    {"changes": [{"path": ".git/config", "size": 1, "mode": "100644"}]},
    {"changes": [{"path": "out", "size": 1, "mode": "120000"}]},
    {"changes": [{"path": "out", "size": "1", "mode": "100644"}]},
    {"changes": [{"path": "out", "size": -1, "mode": "100644"}]},
]


def test_a_driver_that_lies_has_its_order_refused(packing, tmp_path):
    folder = WorkerFolder(tmp_path, trust=False, say=print)
    folder.add_base(packing.package, packing.base())
    bench = folder.bench(packing.package)
    for lie in LIES:
        fields = {"node": "1.1", "number": 1, "pool": "attempt", "seed": 0, "token": "token", **lie}
        with pytest.raises((LooptyError, TypeError, ValueError)):  # those that a worker answers with a fault
            bench.trial(codec.build(WorkerOrder, fields), b"x")


def test_a_driver_gets_nothing_of_the_machine_without_the_workers_yes(packing, tmp_path):
    folder, rig = WorkerFolder(tmp_path, trust=False, say=print), packing.package.rig
    folder.add_base(packing.package, packing.base())
    for greedy in (
        replace(rig, unsafe=True),
        replace(rig, benchmark=replace(rig.benchmark, mounts=("~/.ssh",))),
        replace(rig, benchmark=replace(rig.benchmark, network=True)),
    ):
        with pytest.raises(Misuse, match="its trials ask this machine for"):
            folder.bench(replace(packing.package, rig=greedy))


@pytest.mark.parametrize("lie", [{"tree": 7}, {"run": "1"}, {"rig": []}, {"rig": None}])
def test_a_rig_that_cannot_be_read_ends_the_connection(packing, lie):
    fields = {"package": {**message(packing.package), **lie}, "lease_seconds": 1}
    with pytest.raises(LinkLost, match="a rig that cannot be read"):
        _read_welcome(Frame("welcome", fields, b""))
    fields["package"] = message(packing.package)
    assert _read_welcome(Frame("welcome", fields, b""))[0] == packing.package
