"""Trials on a Ray cluster of several nodes: the five commands of the page, and what a fault costs."""

import json
import os
import signal
import subprocess

import pytest

from loopty.record.workers import LeaseLost, TrialLeased, WorkerJoined

from .conftest import ECHO_X, PARAMETER_TASK
from .test_kill import assert_soon_gone, processes_with
from .test_workers import LIMIT, TOKEN, Driver, assert_sound, events, gated, started, wait_until

__all__ = ["gated", "started"]  # fixtures


@pytest.fixture
def driver(place, ray_cluster, started, monkeypatch):
    """Starts `loopty run` with workers on the cluster."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_TMPDIR"):
        monkeypatch.setenv(name, ray_cluster.environment[name])

    def start(options):
        host = f"ray:{ray_cluster.address}?{options}"
        text = (place.top / "loopty.toml").read_text()
        if host not in text:
            table = f"[executor]\nkind = 'pool'\nhosts = ['{host}']\nwait_seconds = {LIMIT}\n"
            place.write("loopty.toml", text.replace("[executor]\n", table))
            place.commit()
        started.append(Driver(place))
        return started[-1]

    return start


def wait_for_trial(place, leases):
    wait_until(lambda: len(events(place, TrialLeased)) >= leases, f"{leases} trials given out")
    wait_until(lambda: processes_with(TOKEN), "a trial runs")


def worker_processes(place):
    """The processes of the workers that have joined, by the names that their nodes gave them."""
    names = {event.worker.partition("/")[0] for event in events(place, WorkerJoined)}
    return [int(pid) for name in names for pid in processes_with(f"--name\0{name}")]


def test_five_commands_lead_from_a_laptop_to_two_nodes(place, ray_cluster, ray_commands):
    install, export, head, node, optimize = ray_commands
    assert (head.split()[:2], node.split()[:2]) == (["ray", "start"], ["ray", "start"])  # the fixture ran them
    assert install == "pip install '/path/to/loopty[ray]'", "the environment of tests has it"
    assert export.startswith("export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=")
    task = PARAMETER_TASK.format(attempts=3, command=json.dumps(ECHO_X))
    place.write("loopty.toml", f"{task}[noise]\nrepeat = 'never'\n")
    place.commit()
    line = optimize.replace("laptop:6379", ray_cluster.address).replace(":7700", ":0")
    done = subprocess.run(
        ["sh", "-c", f"{line} --quiet"],
        cwd=place.top,
        env=ray_cluster.environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_sound(place, 3)
    assert worker_processes(place) == []


def test_a_killed_worker_is_placed_again_and_its_trial_given_out_again(place, gated, driver):
    run = driver("cpus=0.1")
    wait_for_trial(place, 1)
    status = place.json("status")
    assert len(status["nodes"]) >= 2
    assert sum(node["busy"] for node in status["nodes"]) == 1
    assert "1 of 1 worker busy" in place.loopty("status").stdout
    (worker,) = worker_processes(place)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: events(place, LeaseLost), "the lease is lost")
    wait_for_trial(place, 2)
    gated()
    run.result()
    assert_sound(place, 3)
    wait_until(lambda: not worker_processes(place), "no worker is left")


def test_a_lost_node_costs_a_lease_and_leaves_no_process(place, gated, driver, ray_cluster):
    raylet = ray_cluster.add_node("exclusive")
    run = driver("cpus=0&resources=exclusive:1")
    wait_for_trial(place, 1)
    os.kill(raylet, signal.SIGKILL)
    wait_until(lambda: events(place, LeaseLost), "the lease is lost")
    assert_soon_gone(TOKEN)
    ray_cluster.add_node("exclusive")
    wait_for_trial(place, 2)
    gated()
    run.result()
    assert_sound(place, 3)
    assert len({event.worker.partition("/")[0] for event in events(place, WorkerJoined)}) == 2  # two nodes


def test_a_killed_driver_leaves_no_worker_and_the_next_one_goes_on(place, gated, driver):
    run = driver("cpus=0.1")
    wait_for_trial(place, 1)
    run.process.kill()
    assert_soon_gone(TOKEN)
    wait_until(lambda: not worker_processes(place), "Ray ended the worker")
    again = driver("cpus=0.1")
    wait_for_trial(place, 2)
    gated()
    again.result()
    assert_sound(place, 3)
