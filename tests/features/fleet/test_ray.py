"""Ray as what places workers: the suite of executors on a real cluster, and what is refused before."""

import asyncio
import os
import socket
from contextlib import asynccontextmanager

import pytest

from loopty.domain.errors import Misuse
from loopty.features.fleet.cluster_spec import ClusterSpec, run_worker
from loopty.features.fleet.door import WorkerDoor, WorkerUrl
from loopty.features.fleet.ray_placement import Placement, PlacementOrder, Unusable, require_answer
from loopty.features.fleet.ray_workers import RayPlacer
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.testing.executor_suite import ExecutorConformance

from ...harnesses.pool_harness import TOKEN, PoolHarness
from ...harnesses.relay_worker import serve_function, worker_program

URL = str(WorkerUrl("10.0.0.1", 7700, "token", "f0" * 32))
LIMIT = 300


@pytest.mark.usefixtures("ray_environment")
class TestRay(ExecutorConformance):
    @pytest.fixture
    def ray_environment(self, ray_cluster, monkeypatch):
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_TMPDIR"):
            monkeypatch.setenv(name, ray_cluster.environment[name])

    @pytest.fixture
    def make(self, ray_cluster, tmp_path):
        @asynccontextmanager
        async def make(evaluate, width):
            harness = PoolHarness(wait_seconds=0.5)
            door = WorkerDoor(SafeFolder(tmp_path).below("door"), harness.pool.admit)
            url = replace(await door.open("127.0.0.1:0"), token=TOKEN)
            path = str(ray_cluster.folder / f"relay-{tmp_path.name[-20:]}")
            server = await serve_function(path, evaluate)
            spec = ClusterSpec.parse(f"ray:{ray_cluster.address}?workers={width}&cpus=0.1")
            program = worker_program(path)
            placer = RayPlacer(spec, lambda: str(url), harness.said.append, lambda _: None, program)
            runs = [asyncio.create_task(placer.run()) for _ in range(width)]
            try:
                await wait_for_members(harness.pool, width, runs)
                machine = harness.pool.members[0].machine
                harness.pool.choose_machine(machine)
                harness.pool.open_cohort(machine.fingerprint)
                yield harness.pool
            finally:
                await harness.close()
                for run in runs:
                    run.cancel()
                await asyncio.gather(*runs, return_exceptions=True)
                await door.close()
                server.close()

        return make


async def wait_for_members(pool, count, runs):
    async with asyncio.timeout(LIMIT):
        while len(pool.members) < count:
            assert not any(run.done() for run in runs), [run.result() for run in runs if run.done()]
            await asyncio.sleep(0.05)


class FoundCluster:
    """What the placement asks of Ray about nodes."""

    def __init__(self, *addresses):
        self.util = self
        self.addresses = addresses

    def get_node_ip_address(self):
        return self.addresses[0]

    def nodes(self):
        return [
            {
                "NodeID": f"{n}",
                "Alive": True,
                "NodeManagerAddress": address,
                "Resources": {"CPU": 2.0, "memory": 9},
            }
            for n, address in enumerate(self.addresses)
        ]


class NoteList:
    def __init__(self):
        self.sent = []

    def send(self, **note):
        self.sent.append(note)


def test_the_url_does_not_leave_the_machine_unencrypted_unless_the_user_says_so(monkeypatch):
    order, cluster, notes = PlacementOrder("", URL), FoundCluster("10.0.0.1", "10.0.0.2"), NoteList()
    with pytest.raises(Unusable, match=r"10\.0\.0\.2 unencrypted.*network=private"):
        Placement(order, cluster, notes).look_at_nodes()
    assert notes.sent == []
    Placement(replace(order, is_private=True), cluster, notes).look_at_nodes()
    monkeypatch.setenv("RAY_USE_TLS", "1")
    Placement(order, cluster, notes).look_at_nodes()
    assert [node["address"] for node in notes.sent[-1]["nodes"]] == ["10.0.0.1", "10.0.0.2"]
    monkeypatch.delenv("RAY_USE_TLS")
    Placement(order, FoundCluster("10.0.0.1", "127.0.0.1"), notes).look_at_nodes()


def test_what_no_node_has_is_said_once():
    notes = NoteList()
    placement = Placement(PlacementOrder("", URL, resources={"licence": 1}), FoundCluster("127.0.0.1"), notes)
    placement.look_at_nodes()
    placement.look_at_nodes()
    assert [note["say"] for note in notes.sent if "say" in note] == [
        "no node of Ray has CPU 1, licence 1 yet: the workers wait for one that has"
    ]


def test_a_worker_does_not_get_the_token_of_the_cluster(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    code = "import os, sys; sys.exit(' '.join([*os.environ, os.environ['LOOPTY_WORKER_URL']]))"
    end = run_worker(URL, program=("-c", code))
    assert end.code == 1
    assert URL in end.text
    assert "RAY_" not in end.text


def test_a_worker_that_a_signal_ended_is_told_from_one_that_refused():
    assert run_worker(URL, program=("-c", "import os; os.kill(os.getpid(), 9)")).is_kill
    end = run_worker(URL, program=("-c", "import sys; sys.exit('disk full')"))
    assert (end.text, end.is_kill) == ("disk full", False)


def test_an_entry_names_resources_and_the_network():
    spec = ClusterSpec.parse("ray:box:6379?workers=2&gpus=1&resources=licence:1,accelerator_type:A100:0.1")
    assert (spec.place, spec.workers, spec.number("gpus", 0)) == ("box:6379", 2, 1.0)
    assert spec.resources() == {"licence": 1.0, "accelerator_type:A100": 0.1}
    assert not spec.is_private()
    assert ClusterSpec.parse("ray:?network=private").is_private()


@pytest.mark.parametrize(
    "host",
    [
        "ray:?resources=licence",
        "ray:?resources=a:0",
        "ray:?network=open",
        "ray://box:10001",
        "ray:?cpus=x",
        "ray:?workers=0",
        "ray:?workers=x",
        "ray:?gpu=1",
    ],
)
def test_a_faulty_entry_is_refused_before_anything_starts(host):
    with pytest.raises(Misuse, match=r"\[executor\] hosts"):
        RayPlacer(ClusterSpec.parse(host), str, print, print)


async def test_a_cluster_that_is_not_there_is_a_reason_and_no_crash(monkeypatch):
    monkeypatch.setitem(os.environ, "RAY_ADDRESS", "")
    monkeypatch.setattr(
        "loopty.features.fleet.ray_workers._PLACEMENT", ("-c", 'print(\'{"failed": "nobody answers"}\')')
    )
    placer = RayPlacer(ClusterSpec.parse("ray:127.0.0.1:1"), lambda: URL, print, print)
    assert await asyncio.wait_for(placer.run(), LIMIT) == "nobody answers"


def test_an_address_at_which_nobody_listens_is_refused_with_the_remedy():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        require_answer(address)
    with pytest.raises(Unusable, match=f"no Ray cluster answers at {address} .*ray start --head"):
        require_answer(address)
    require_answer("")  # Ray looks for the cluster of this machine
