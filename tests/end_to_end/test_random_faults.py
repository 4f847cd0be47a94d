"""A randomised run of a driver with workers, with faults; a checker looks at every event afterwards.

Workers are killed, stopped for longer than a lease, cut off from the driver and left without an answer, and the
driver is killed and started again. LOOPTY_FAULTS says how many faults, LOOPTY_FAULT_SEED which ones.
"""

import contextlib
import json
import os
import random
import signal
import socket
import threading
import time

import pytest

from loopty.domain.trial import Ending
from loopty.features.fleet.door import WorkerUrl
from loopty.kit.records import replace
from loopty.record.trials import TrialEnded
from loopty.record.workers import LeaseLost, TrialLeased

from .conftest import ECHO_X, PARAMETER_TASK
from .test_workers import TOKEN, Driver, Worker, assert_sound, events, started, wait_until

__all__ = ["started"]  # a fixture
TRIALS_PER_FAULT = 3
LEASE_SECONDS = 3


class Relay:
    """A network between the workers and the driver, which can be cut, and can stop to deliver."""

    def __init__(self, port):
        self._port, self._ends = port, []
        self.delivers = threading.Event()
        self.delivers.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return  # it was closed
            try:
                there = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                here.close()  # no driver now: the worker tries again
                continue
            self._ends += [here, there]
            for source, target in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while block := source.recv(65536):
                self.delivers.wait()
                target.sendall(block)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.delivers.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join()
        for end in self._ends:
            end.close()


class Night:
    """A driver, its workers, and what happens to them."""

    def __init__(self, place, folder, started, rng):
        self.place, self.folder, self.started, self.rng = place, folder, started, rng
        self.driver = Driver(place)
        started.append(self.driver)
        url = WorkerUrl.parse(self.driver.url)
        self.relay = Relay(url.port)
        self._url = str(replace(url, port=self.relay.port))
        self.workers, self.stopped, self.ends_of_drivers = [], [], []
        self._fill()

    def _fill(self):
        while len(self.workers) - len(self.stopped) < 2:
            worker = Worker(self._url, self.folder / f"worker{len(self.started)}")
            self.workers.append(worker)
            self.started.append(worker)

    def kill_worker(self):
        worker = self.rng.choice(self.workers)
        self.workers.remove(worker)
        if worker in self.stopped:
            self.stopped.remove(worker)
        worker.close()

    def stop_worker(self):
        worker = self.rng.choice(self.workers)
        if worker not in self.stopped:
            worker.process.send_signal(signal.SIGSTOP)
            self.stopped.append(worker)

    def go_on(self):
        if self.stopped:
            self.stopped.pop(0).process.send_signal(signal.SIGCONT)

    def cut(self):
        self.relay.cut()

    def deliver_late(self):
        """Nothing arrives for longer than a lease; then all of it does."""
        self.relay.delivers.clear()
        time.sleep(2 * LEASE_SECONDS)
        self.relay.delivers.set()

    def kill_driver(self):
        self.driver.close()
        self.ends_of_drivers.append(len(events(self.place, object)))
        self.driver = Driver(self.place)
        self.started.append(self.driver)

    def run(self, faults):
        kinds = [self.kill_worker, self.stop_worker, self.go_on, self.cut, self.deliver_late, self.kill_driver]
        for number in range(faults):
            if number % len(kinds) == 0:
                self.rng.shuffle(kinds)
            fault = kinds[number % len(kinds)]
            before = len(self.ended())
            wait_until(lambda: events(self.place, TrialLeased), "a trial is given out")
            fault()
            self._fill()
            wait_until(
                lambda before=before: len(self.ended()) >= before + 2 or self.driver.process.poll() is not None,
                f"trials end after {fault.__name__}",
            )
            if self.driver.process.poll() is not None:
                break
        for worker in self.stopped:
            worker.process.send_signal(signal.SIGCONT)
        return self.driver.result()

    def ended(self):
        return events(self.place, TrialEnded)


@pytest.fixture
def night(place, tmp_path, started):
    seed, faults = int(os.environ.get("LOOPTY_FAULT_SEED", "2")), int(os.environ.get("LOOPTY_FAULTS", "6"))
    command = f": {TOKEN}; sleep 0.3; {ECHO_X}"
    task = PARAMETER_TASK.format(attempts=TRIALS_PER_FAULT * faults, command=json.dumps(command))
    place.write("loopty.toml", f"{task}[executor]\nlease_seconds = {LEASE_SECONDS}\n[noise]\nrepeat = 'never'\n")
    place.commit()
    found = Night(place, tmp_path, started, random.Random(seed))
    yield found
    found.relay.close()


def test_no_trial_is_lost_or_counted_twice_and_a_lost_lease_brings_no_result(place, night):
    faults = int(os.environ.get("LOOPTY_FAULTS", "6"))
    assert night.run(faults)["sound"]
    assert_sound(place, TRIALS_PER_FAULT * faults)
    check(place, night.ends_of_drivers)


def check(place, ends_of_drivers):
    """No trial has two leases at once, only the present one brings a result, and it is that of this trial."""
    found, leases, seen = {}, {}, set()
    history = place.history()
    for number, event in enumerate(events(place, object)):
        if number in ends_of_drivers:
            leases.clear()  # its workers end with it, as their trials do
        match event:
            case TrialLeased(node, trial, _, lease):
                assert (node, trial) not in leases, f"{node} was given to two workers at once"
                assert lease not in seen
                seen.add(lease)
                leases[node, trial] = lease
            case LeaseLost(node, trial, lease, _):
                assert leases.pop((node, trial)) == lease
            case TrialEnded(node, trial, outcome) if outcome.ending is Ending.FINISHED:
                assert leases.pop((node, trial), None), f"{node} ended without a lease"
                assert node not in found, f"{node} has two results"
                found[node] = outcome.metrics["score"]
    for node, score in found.items():
        assert score == pytest.approx(history[node].params["x"])
