"""Trials on workers, with the real command line: joining, losing a worker, losing the driver, a cut network."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from loopty.domain.trial import Ending, Pool
from loopty.git.folders import GitFolders
from loopty.kit.installation import working_program
from loopty.record.trials import CohortOpened, TrialCounts, TrialEnded
from loopty.record.workers import LeaseLost, TrialLeased, WorkerJoined, Workers
from loopty.session.saved_record import SavedRecord

from .conftest import ECHO_X, PARAMETER_TASK
from .test_kill import assert_soon_gone, processes_with

TOKEN = f"sleeping-candidate-of-the-worker-test-{os.getpid()}"
WORKER = ("-m", "loopty", "worker", "--trust")
LIMIT = 240


class Driver:
    """`loopty run --listen` in a place, with the URL that it shows."""

    def __init__(self, place, listen="127.0.0.1:0", prefix=()):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "loopty", "optimize", "--quiet", "--json", "--listen", listen],
            cwd=place.top,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines = []
        while not (found := re.search(r"'(loopty://\S+)'", line := self.process.stderr.readline())):
            assert line, self.lines
            self.lines.append(line)
        self.url = found[1]
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self._reader.start()

    def result(self):
        out = self.process.stdout.read()
        assert self.process.wait(LIMIT) == 0, self.lines
        return json.loads(out)

    def close(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Worker:
    """`loopty system worker`, with a folder of its own."""

    def __init__(self, url, folder, prefix=()):
        self.log = folder.with_suffix(".log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, *WORKER, "--dir", folder, "--name", folder.name],
                env={**os.environ, "LOOPTY_WORKER_URL": url},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def gated(place, tmp_path):
    """A task whose trials wait until a file exists, and what opens them."""
    gate = tmp_path / "gate"
    gate.mkdir()
    command = f": {TOKEN}; while [ ! -e {gate}/open ]; do sleep 0.05; done; {ECHO_X}"
    task = PARAMETER_TASK.format(attempts=3, command=json.dumps(command)).replace(
        "timeout_seconds = 20", f'timeout_seconds = 500\nmounts = ["{gate}"]'
    )
    place.write("loopty.toml", f"{task}[executor]\nlease_seconds = 3\n[noise]\nrepeat = 'never'\n")
    place.commit()
    return lambda: (gate / "open").touch()


@pytest.fixture
def started():
    """Processes that a test starts; none is left after it."""
    found = []
    yield found
    for item in found:
        with contextlib.suppress(ProcessLookupError):
            item.process.send_signal(signal.SIGCONT)
        item.close()
    assert_soon_gone(TOKEN)


def wait_until(condition, what):
    until = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < until, what
        time.sleep(0.1)
    return found


def events(place, *kinds):
    try:
        return [
            item.event
            for item in SavedRecord(GitFolders.find(place.top)).events()
            if isinstance(item.event, kinds)
        ]
    except OSError:
        return []


def wait_for_leases(place, count):
    wait_until(lambda: len(events(place, TrialLeased)) >= count, f"{count} trials given out")
    wait_until(lambda: processes_with(TOKEN), "a trial runs")


def assert_sound(place, attempts):
    """Each attempt was counted once, and none was lost."""
    ended = [event for event in events(place, TrialEnded) if event.outcome.ending is Ending.FINISHED]
    names = [(event.node, event.number) for event in ended]
    assert len(names) == len(set(names)) == attempts + 1
    counts = TrialCounts.of(place.history().runs[1], Pool.ATTEMPT)
    assert counts.started == attempts
    assert counts.endings.get(Ending.FAILED, 0) == 0


def test_directories_of_the_pool_run_the_trials_and_see_no_hidden_file(place, tmp_path):
    place.write("answers/of_the_split.txt", "42\n")
    place.write("seen.txt", "7\n")
    command = json.dumps(f"cat seen.txt; {ECHO_X}")
    hosts = [str(tmp_path / name) for name in ("one", "two")]
    quiet = "[noise]\nrepeat = 'never'\n"
    tables = f"[access]\nhidden = ['answers/**']\n[executor]\nkind = 'pool'\nhosts = {hosts}\n{quiet}"
    place.write("loopty.toml", PARAMETER_TASK.format(attempts=4, command=command) + tables)
    place.commit()
    found = place.json("optimize", "--quiet")
    assert found["sound"]
    assert_sound(place, 4)
    for host in hosts:
        names = {path.name for path in Path(host).rglob("*")}
        assert "seen.txt" in names
        assert "of_the_split.txt" not in names
    assert (place.state / "nodes/1/stdout.log").read_text() == "7\n"
    assert processes_with(hosts[0]) == []


def test_a_killed_worker_leaves_no_process_and_its_trial_goes_to_another(place, gated, started, tmp_path):
    driver = Driver(place)
    first = Worker(driver.url, tmp_path / "first")
    started += [driver, first]
    wait_for_leases(place, 1)
    (row,) = place.json("status")["workers"]
    assert (row["trial"], row["cohort"]) == ("1#1", "closed")
    assert "first" in place.loopty("status").stdout
    first.process.kill()
    assert_soon_gone(TOKEN)
    started.append(Worker(driver.url, tmp_path / "second"))
    wait_for_leases(place, 2)
    gated()
    driver.result()
    assert_sound(place, 3)
    assert [event.node for event in events(place, LeaseLost)] == ["1"]
    assert started[-1].process.wait(LIMIT) == 0  # the driver sent it home
    assert Workers.of(place.history().runs[1]).members == {}


def test_a_worker_kills_its_trial_when_the_driver_dies_and_joins_the_next_one(place, gated, started, tmp_path):
    driver = Driver(place)
    worker = Worker(driver.url, tmp_path / "worker")
    started += [driver, worker]
    wait_for_leases(place, 1)
    driver.process.kill()
    assert_soon_gone(TOKEN)
    again = Driver(place)
    started.append(again)
    assert again.url == driver.url
    wait_for_leases(place, 2)
    gated()
    again.result()
    assert_sound(place, 3)
    assert worker.process.wait(LIMIT) == 0


def test_a_frozen_worker_loses_its_trial_and_kills_it_when_it_thaws(place, gated, started, tmp_path):
    driver = Driver(place)
    first = Worker(driver.url, tmp_path / "first")
    started += [driver, first]
    wait_for_leases(place, 1)
    first.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: events(place, LeaseLost), "the lease is lost")
    started.append(Worker(driver.url, tmp_path / "second"))
    wait_for_leases(place, 2)
    first.process.send_signal(signal.SIGCONT)
    wait_until(lambda: "joining again" in first.log.read_text(), "the worker sees that it was dropped")
    gated()
    driver.result()
    assert_sound(place, 3)
    assert "silent" in events(place, LeaseLost)[0].reason


@pytest.fixture
def namespace():
    """A machine of its own on a cable: its name, the driver's address, and what cuts and mends the cable."""
    name = f"loopty{os.getpid() % 10000}"
    near, far = f"{name}a", f"{name}b"
    net = os.getpid() % 200 + 10
    steps = [
        ["netns", "add", name],
        ["link", "add", near, "type", "veth", "peer", "name", far, "netns", name],
        ["addr", "add", f"10.213.{net}.1/24", "dev", near],
        ["link", "set", near, "up"],
        ["-n", name, "addr", "add", f"10.213.{net}.2/24", "dev", far],
        ["-n", name, "link", "set", far, "up"],
        ["-n", name, "link", "set", "lo", "up"],
    ]

    def run(*step):
        return subprocess.run(["ip", *step], capture_output=True).returncode == 0

    try:
        if not (os.geteuid() == 0 and working_program("ip") and all(run(*step) for step in steps)):
            pytest.skip("no network namespaces can be made here")
        yield (
            name,
            f"10.213.{net}.1:0",
            lambda: run("link", "set", near, "down"),
            lambda: run("link", "set", near, "up"),
        )
    finally:
        run("link", "del", near)
        run("netns", "del", name)


def test_a_cut_network_costs_a_lease_and_nothing_else(place, gated, started, tmp_path, namespace):
    name, address, cut, mend = namespace
    driver = Driver(place, address)
    worker = Worker(driver.url, tmp_path / "worker", ("ip", "netns", "exec", name))
    started += [driver, worker]
    wait_for_leases(place, 1)
    cut()
    wait_until(lambda: events(place, LeaseLost), "the lease is lost")
    assert_soon_gone(TOKEN)  # the worker noticed as well
    mend()
    wait_for_leases(place, 2)
    gated()
    driver.result()
    assert_sound(place, 3)


def test_a_directory_that_is_in_use_is_a_clear_error(place, gated, started, tmp_path):
    folder = tmp_path / "only"
    driver = Driver(place)
    started += [driver, Worker(driver.url, folder)]
    wait_for_leases(place, 1)
    done = subprocess.run(
        [sys.executable, "-m", "loopty", "worker", driver.url, "--dir", folder], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "in use by another worker" in done.stderr
    gated()
    driver.result()


def test_a_strangers_task_starts_no_worker_unasked(place):
    text = PARAMETER_TASK.format(attempts=1, command='"true"')
    (place.top / "loopty.toml").write_text(f"{text}[executor]\nkind = 'pool'\nhosts = ['ssh://me@box/a']\n")
    place.commit()
    done = place.loopty("optimize", "--quiet", code=2)
    assert "to start workers at 'ssh://me@box/a'" in done.stderr
    assert "loopty config trust" in done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two kinds of machines need two cores to tell apart")
def test_machines_of_two_kinds_form_cohorts_and_one_that_changes_joins_the_other(place, started, tmp_path):
    task = PARAMETER_TASK.format(attempts=100_000, command=json.dumps(f"sleep 0.05; {ECHO_X}"))
    place.write("loopty.toml", f"{task}[noise]\nrepeat = 'never'\n")
    place.commit()
    driver = Driver(place)
    core = str(min(os.sched_getaffinity(0)))
    large, small = Worker(driver.url, tmp_path / "large"), None
    started += [driver, large]
    wait_until(lambda: events(place, TrialEnded), "the baseline is measured")
    small = Worker(driver.url, tmp_path / "small", ("taskset", "-c", core))
    started.append(small)

    def prints(name):
        return [event.fingerprint for event in events(place, WorkerJoined) if event.worker.startswith(name)]

    opened = wait_until(lambda: events(place, CohortOpened), "the second kind of machine is opened")
    assert [event.fingerprint for event in opened] == prints("small")
    assert prints("large") != prints("small")
    wait_until(
        lambda: any(event.outcome.fingerprint == prints("small")[0] for event in events(place, TrialEnded)),
        "a trial on the second kind",
    )
    rows = {row["name"]: row["cohort"] for row in place.json("status")["workers"]}
    assert sorted(rows.values()) == ["other", "present"]
    os.sched_setaffinity(large.process.pid, {int(core)})
    wait_until(
        lambda: prints("large")[1:] == prints("small"), "the machine that changed is known as what it is now"
    )
    assert "this machine has changed (cores:" in large.log.read_text()
    place.loopty("stop")
    assert driver.process.wait(LIMIT) is not None


def test_a_worker_says_what_it_does_as_json(place, gated, started, tmp_path):
    driver = Driver(place)
    started.append(driver)
    gated()
    done = subprocess.run(
        [sys.executable, *WORKER, driver.url, "--json", "--dir", tmp_path / "one"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    driver.result()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(isinstance(line["at"], float) for line in lines)
    assert lines[0]["message"].startswith("joined as")
    assert any(line["message"].startswith("runs @1") for line in lines)
