"""Machines of SkyPilot: what it is asked for, and that every machine is given back.

SkyPilot needs another release of click than loopty, so it cannot be among the packages of the tests: here a script
stands in its place. `pytest -m registry tests/features/fleet/test_sky_workers.py` asks the real one.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.features.fleet.cluster_spec import ClusterSpec
from loopty.features.fleet.rented_workers import run_sky_worker, sky_order

URL = "loopty://secret@driver:7700/?certificate=" + "a" * 64
SPEC = ClusterSpec.parse("sky:aws?gpus=H100:1&cpus=4%2B&spot=yes&minutes=30&install=loopty")
_LIMIT_SECONDS = 120
TASK_FIELDS = {"name", "setup", "run", "secrets", "resources"}
RESOURCE_FIELDS = {"infra", "cpus", "accelerators", "use_spot", "autostop"}
"""Of SkyPilot's documented task files; the test with the real library compares them with its schema."""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """An environment with a scripted SkyPilot, whose program is on the PATH; returns what was called."""
    folder = tmp_path / "environment"
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    shutil.copy(Path(__file__).with_name("scripted_sky.py"), packages / "sky.py")
    program = folder / "bin" / "sky"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    written = folder / "calls"
    return lambda: [json.loads(line) for line in written.read_text().splitlines()] if written.exists() else []


def test_the_order_has_fields_of_skypilots_task_files_and_its_machine_ends_by_itself():
    order = sky_order(SPEC, URL)
    assert set(order["task"]) < TASK_FIELDS
    assert set(order["resources"]) <= RESOURCE_FIELDS
    assert order["resources"]["autostop"] == {"idle_minutes": 5, "down": True}
    assert (order["resources"]["accelerators"], order["resources"]["infra"]) == ("H100:1", "aws")
    assert URL not in json.dumps(order["task"])
    assert set(sky_order(ClusterSpec.parse("sky:?install=loopty"), URL)["resources"]) == {"autostop"}


async def test_a_worker_runs_to_its_end_and_the_machine_is_given_back(calls):
    assert await asyncio.wait_for(run_sky_worker(SPEC, URL), _LIMIT_SECONDS) == "its job ended as SUCCEEDED"
    task, resources, launch, *_, down = calls()
    assert task["secrets"] == {"LOOPTY_WORKER_URL": URL}
    assert task["run"] == "timeout 1800 loopty worker --trust --patience 120"
    assert (resources["accelerators"], resources["cpus"], resources["spot"]) == ("H100:1", "4+", True)
    assert (launch["idle"], launch["down"]) == (5, True)
    assert down == {"call": "down", "name": launch["name"]}


async def test_a_worker_that_is_no_longer_wanted_gives_its_machine_back(calls):
    worker = asyncio.create_task(run_sky_worker(ClusterSpec.parse("sky:endless?install=loopty"), URL))
    async with asyncio.timeout(_LIMIT_SECONDS):
        while "job_status" not in [call["call"] for call in calls()]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # the other process writes a file
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert [call["call"] for call in calls()][-2:] == ["api_cancel", "down"]


async def test_without_access_to_a_cloud_the_error_says_what_to_do(calls):
    with pytest.raises(Misuse, match=r"can rent nothing \(Cloud access is not set up. Run: sky check\): log in"):
        await asyncio.wait_for(run_sky_worker(ClusterSpec.parse("sky:none?install=loopty"), URL), _LIMIT_SECONDS)
    assert calls()[-1]["call"] == "down"


async def test_a_machine_that_is_not_free_is_the_reason_of_the_end(calls):
    reason = await asyncio.wait_for(
        run_sky_worker(ClusterSpec.parse("sky:full?install=loopty"), URL), _LIMIT_SECONDS
    )
    assert reason == "no such machine is free (all zones tried)"
    assert calls()[-1]["call"] == "down"


async def test_without_the_program_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Misuse, match=r"uv tool install 'skypilot\[aws\]'.*environment of its own"):
        await run_sky_worker(SPEC, URL)
    program = tmp_path / "sky"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(Misuse, match=r"uses the Python beside SkyPilot's program"):
        await run_sky_worker(SPEC, URL)


_ASK_THE_LIBRARY = """
import json, sys
import sky
from sky.utils import schemas
sys.path.insert(0, sys.argv[1])
from sky_machine import sky_task
config = sky_task(sky, json.load(sys.stdin)).to_yaml_config()
fields = [sorted(schema()["properties"]) for schema in (schemas.get_task_schema, schemas.get_resources_schema)]
print(json.dumps({"config": config, "fields": fields}))
"""


@pytest.fixture(scope="module")
def skypilot(tmp_path_factory):
    """The newest SkyPilot in an environment of its own, and a home that knows no cloud."""
    folder = tmp_path_factory.mktemp("skypilot")
    subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
    subprocess.run([folder / "environment/bin/pip", "install", "--quiet", "skypilot"], check=True)
    (folder / "home").mkdir()
    return folder


@pytest.mark.registry
def test_the_real_library_builds_the_task_and_knows_its_fields(skypilot):
    import loopty.features.fleet.sky_machine as machine

    asked = subprocess.run(
        [skypilot / "environment/bin/python", "-I", "-c", _ASK_THE_LIBRARY, Path(machine.__file__).parent],
        input=json.dumps(sky_order(SPEC, URL)),
        env={"HOME": str(skypilot / "home"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(asked.stdout.splitlines()[-1])
    config, (task_fields, resource_fields) = found["config"], found["fields"]
    assert set(task_fields) >= TASK_FIELDS
    assert set(resource_fields) >= RESOURCE_FIELDS
    assert config["resources"] == {
        "infra": "aws",
        "cpus": "4+",
        "accelerators": {"H100": 1},
        "use_spot": True,
        "autostop": {"idle_minutes": 5, "down": True},
    }
    assert config["secrets"] == {"LOOPTY_WORKER_URL": URL}
    assert URL not in json.dumps({name: value for name, value in config.items() if name != "secrets"})


@pytest.fixture
def without_cloud(skypilot, monkeypatch):
    """A real server of SkyPilot that may use no cloud; its program is on the PATH."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    programs = skypilot / "environment/bin"
    monkeypatch.setenv("HOME", str(skypilot / "home"))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SKYPILOT_API_SERVER_ENDPOINT", f"http://127.0.0.1:{port}")
    server = subprocess.Popen(
        [programs / "python", "-m", "sky.server.server", "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_for_health(port)
        yield
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.registry
@pytest.mark.usefixtures("without_cloud")
async def test_the_real_server_without_a_cloud_refuses_to_rent():
    with pytest.raises(Misuse, match="SkyPilot can rent nothing"):
        await run_sky_worker(ClusterSpec.parse("sky:aws?cpus=2&install=loopty"), URL)


def _wait_for_health(port):
    until = time.monotonic() + 300
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(1)
    raise AssertionError("SkyPilot's server did not start")
