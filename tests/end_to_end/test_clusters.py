"""Trials on workers that a command starts: here, and as jobs of a real Slurm by its recipe."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from loopty.features.fleet.start_command import recipe_text
from loopty.record.workers import LeaseLost, WorkerJoined

from ..servers.slurm_cluster import SlurmCluster, why_no_slurm
from .conftest import ECHO_X, PARAMETER_TASK
from .test_kill import assert_soon_gone, processes_with
from .test_workers import Driver, assert_sound, events, gated, started, wait_for_leases, wait_until

__all__ = ["gated", "started"]  # fixtures
QUIET = "[noise]\nrepeat = 'never'\n"
LISTEN = ("--listen", "127.0.0.1:0")


def worker_line(folder, patience=120):
    """What starts one worker here; `; true` keeps a shell above it."""
    worker = f"{shlex.quote(sys.executable)} -m loopty system worker --trust --patience {patience}"
    return f"{worker} --dir {folder}/w$LOOPTY_WORKER_NUMBER --name w$LOOPTY_WORKER_NUMBER; true"


def add_start(place, start, workers=1):
    """Have the command start the workers of the task that is there."""
    text = (place.top / "loopty.toml").read_text()
    table = f"[executor]\nkind = 'pool'\nstart = {json.dumps(start)}\nworkers = {workers}\n"
    place.write("loopty.toml", text.replace("[executor]\n", table))
    place.commit()


def write_task(place, start, attempts=4):
    task = PARAMETER_TASK.format(attempts=attempts, command=json.dumps(f"sleep 0.2; {ECHO_X}"))
    (place.top / "loopty.toml").write_text(f"{task}[executor]\n{QUIET}")
    add_start(place, start)


def worker_processes(folder, number):
    return [int(pid) for pid in processes_with(f"{folder}/w{number}\0")]


def test_two_workers_run_the_trials_and_one_that_is_killed_is_started_again(place, gated, started, tmp_path):
    add_start(place, worker_line(tmp_path), workers=2)
    driver = Driver(place)
    started.append(driver)
    wait_until(lambda: len(events(place, WorkerJoined)) == 2, "both have joined")
    wait_for_leases(place, 1)
    (busy,) = [row["name"] for row in place.json("status")["workers"] if row["trial"]]
    (pid,) = worker_processes(tmp_path, busy[1])
    subprocess.run(["kill", "-9", str(pid)], check=True)
    wait_until(lambda: len(events(place, WorkerJoined)) == 3, "it is started again")
    gated()
    driver.result()
    assert_sound(place, 3)
    assert len(events(place, LeaseLost)) == 1
    joined = [event.worker.partition("/")[0] for event in events(place, WorkerJoined)]
    assert sorted(joined) == sorted(["w1", "w2", busy.partition("/")[0]])
    assert processes_with(f"{tmp_path}/w") == []


def test_a_command_that_fails_is_a_clear_reason(place):
    write_task(place, "echo 'unable to allocate: no such partition' >&2; exit 1")
    done = place.loopty("optimize", "--quiet", *LISTEN, code=2)
    assert "the pool has no worker: executor.start: unable to allocate: no such partition" in done.stderr


@pytest.mark.usefixtures("gated")
def test_of_a_killed_driver_no_worker_is_left_after_its_patience(place, started, tmp_path):
    add_start(place, worker_line(tmp_path, patience=2))
    driver = Driver(place)
    started.append(driver)
    wait_for_leases(place, 1)
    driver.process.kill()
    assert_soon_gone(f"{tmp_path}/w1")


@pytest.mark.parametrize("args", [("optimize", *LISTEN), ("run", "1"), ("run", "1", "--check"), ("new",)])
def test_a_strangers_command_is_not_run_unasked(place, tmp_path, args):
    text = PARAMETER_TASK.format(attempts=1, command='"true"')
    sign = tmp_path / "ran"
    table = f"[executor]\nkind = 'pool'\nlisten = '127.0.0.1:0'\nstart = 'touch {sign}'\n"
    (place.top / "loopty.toml").write_text(text + table)
    place.commit()
    done = place.loopty(*args, code=2)
    assert f"your full permissions, to run 'touch {sign}' without a sandbox (executor.start)" in done.stderr
    assert "`loopty config trust`" in done.stderr
    assert not sign.exists()


def test_another_command_and_another_number_of_workers_are_asked_for_again(place):
    write_task(place, "rent")
    path = place.top / "loopty.toml"
    assert place.json("trust")["trusted"]
    path.write_text(path.read_text().replace("workers = 1", "workers = 100"))
    assert "to run 'rent' 100 times" in place.loopty("optimize", *LISTEN, code=2).stderr
    path.write_text(path.read_text().replace("workers = 100", "workers = 1").replace('"rent"', '"rent more"'))
    assert "to run 'rent more'" in place.loopty("optimize", *LISTEN, code=2).stderr


@pytest.fixture(scope="module")
def slurm():
    if why := why_no_slurm():
        pytest.skip(why)
    cluster = SlurmCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def by_recipe(slurm, tmp_path, monkeypatch):
    """The command of the recipe, with loopty on the path and Slurm in reach."""
    for name, value in slurm.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{slurm.variables['PATH']}")
    monkeypatch.setenv("SECRET_OF_THE_USER", "key")
    file = tmp_path / "loopty-slurm.sh"
    file.write_text(recipe_text("slurm"))
    return f"sh {file}"


def test_jobs_of_slurm_run_the_trials_and_a_killed_one_is_submitted_again(place, gated, started, slurm, by_recipe):
    add_start(place, by_recipe, workers=2)
    driver = Driver(place)
    started.append(driver)
    wait_until(lambda: len(events(place, WorkerJoined)) == 2, "both have joined")
    wait_for_leases(place, 1)
    assert slurm.jobs() == ["RUNNING", "RUNNING"]
    workers = processes_with("worker\0--trust\0--patience\x00120\0")
    jobs = [pid for pid in workers if b"SLURM_JOB_ID=" in (space := Path(f"/proc/{pid}/environ").read_bytes())]
    assert len(jobs) == 2
    assert b"LOOPTY_WORKER_URL=" in space
    assert b"SECRET_OF_THE_USER" not in space
    subprocess.run(["kill", "-9", jobs[0]], check=True)
    wait_until(lambda: len(events(place, WorkerJoined)) == 3, "it is submitted again")
    gated()
    driver.result()
    assert_sound(place, 3)
    wait_until(lambda: not slurm.jobs(), "no job is left")


@pytest.mark.usefixtures("gated")
def test_a_session_that_is_stopped_cancels_jobs_that_run_and_wait(place, started, slurm, by_recipe):
    add_start(place, f"{by_recipe} --cpus-per-task=2", workers=2)
    driver = Driver(place)
    started.append(driver)
    wait_for_leases(place, 1)
    wait_until(lambda: sorted(slurm.jobs()) == ["PENDING", "RUNNING"], "one job waits for the other")
    driver.process.terminate()
    driver.process.wait(120)
    wait_until(lambda: not slurm.jobs(), "no job is left")


def test_what_slurm_and_a_worker_refuse_is_the_reason(place, by_recipe):
    write_task(place, f"{by_recipe} --partition=none")
    told = place.loopty("optimize", "--quiet", *LISTEN, code=2).stderr
    assert "Invalid partition name specified" in told
    write_task(place, f"LOOPTY_WORKER_URL=loopty://x {by_recipe}")
    told = place.loopty("optimize", "--quiet", "--new-run", *LISTEN, code=2).stderr
    assert "this is not the URL of a driver" in told


@pytest.mark.usefixtures("gated")
def test_the_job_of_a_killed_driver_ends_with_its_worker(place, started, slurm, by_recipe):
    file = Path(by_recipe.removeprefix("sh "))
    file.write_text(file.read_text().replace("--patience 120", "--patience 2"))
    add_start(place, by_recipe)
    driver = Driver(place)
    started.append(driver)
    wait_for_leases(place, 1)
    driver.process.kill()
    wait_until(lambda: not slurm.jobs(), "no job is left")
