"""A randomised run of several drivers on one ledger, with faults; a checker looks at every event afterwards.

Drivers are stopped, continued, killed and taken for dead while they write, and the server is killed and restarted.
Each driver says what was acknowledged to it. LOOPTY_FAULTS says how many faults, LOOPTY_FAULT_SEED which ones.
"""

import os
import random
import signal
import subprocess
import sys
import time

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.executors.process_locks import ProcessLocks
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import run_events

_LIMIT_SECONDS = 300.0
_DRIVER = """
import sys, time
from pathlib import Path
from loopty.domain.errors import LostLease
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.executors.process_locks import ProcessLocks
from loopty.kit.safe_folder import SafeFolder
from loopty.features.shared import postgres_line
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder

postgres_line._SETTINGS["idle_in_transaction_session_timeout"] = "5s"  # one that is stopped in a write
url, folder, end = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
ledger = open_ledger(url)
owner = ledger.owners(ProcessLocks(SafeFolder(folder))).claim()
recorder, count = Recorder(ledger, ledger.now), 0
print(owner, flush=True)
while not end.exists():
    def decide(history):
        node = NodeId("1").child(history[NodeId("1")].children + 1)
        return [NodeAdded(node, Pool.ATTEMPT, "hand", f"{owner} {count}", "c0" * 20, "e0" * 20, {"x": 1.0})]
    try:
        print(recorder.record(decide)[0].number, flush=True)
    except LostLease:
        print("lost", flush=True)
        break
    count += 1
    time.sleep(0.02)
"""


class Driver:
    """A process that writes until it is told to end."""

    def __init__(self, url, folder, end):
        folder.mkdir()
        self.log = folder.with_suffix(".log")
        with self.log.open("wb") as log:
            command = [sys.executable, "-c", _DRIVER, url, folder, end]
            self.process = subprocess.Popen(command, stdout=log)
        self.is_stopped = False
        wait_until(lambda: self.said())

    def said(self):
        lines = self.log.read_text().split("\n")
        return lines[:-1]  # the last one may be torn

    @property
    def owner(self):
        return self.said()[0]


def wait_until(is_so):
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Chaos:
    """Several drivers, and what happens to them."""

    def __init__(self, server, url, folder, rng):
        self.server, self.url, self.folder, self.rng = server, url, folder, rng
        self.end = folder / "end"
        self.ledger = open_ledger(url)
        self.recorder = Recorder(self.ledger, self.ledger.now)
        self.recorder.record(lambda _: run_events())
        (folder / "locks").mkdir()
        self.owners = self.ledger.owners(ProcessLocks(SafeFolder(folder / "locks")))
        self.drivers, self.all_drivers = [], []
        for _ in range(3):
            self.add()

    def add(self):
        driver = Driver(self.url, self.folder / f"driver-{len(self.all_drivers)}", self.end)
        self.drivers.append(driver)
        self.all_drivers.append(driver)

    def stop(self, driver):
        driver.process.send_signal(signal.SIGSTOP)
        driver.is_stopped = True

    def go_on(self, driver):
        driver.process.send_signal(signal.SIGCONT)
        driver.is_stopped = False

    def kill(self, driver):
        driver.process.kill()
        driver.process.wait()
        self.take_for_dead(driver)

    def take_for_dead(self, driver):
        """Exclude a driver, whether or not it lives; it comes back later, if it can."""
        owner = driver.owner

        def decide(history):
            self.ledger._server.execute("UPDATE leases SET expires = clock_timestamp() WHERE owner = ?", (owner,))
            assert self.owners.exclude(owner)
            node = NodeId("1").child(history[NodeId("1")].children + 1)
            return [NodeAdded(node, Pool.ATTEMPT, "end", owner, "c0" * 20, "e0" * 20, {"x": 1.0})]

        self.recorder.record(decide)
        self.drivers.remove(driver)
        self.add()

    def restart(self, _driver):
        self.server.kill()
        self.server.start()

    def run(self, faults):
        for _ in range(faults):
            fault = self.rng.choice([self.stop, self.go_on, self.kill, self.take_for_dead, self.restart])
            fault(self.rng.choice(self.drivers))
            if all(driver.is_stopped for driver in self.drivers):
                self.go_on(self.drivers[0])
            before = len(list(self.ledger.read()))
            wait_until(lambda before=before: len(list(self.ledger.read())) >= before + 3)
        self.end.touch()
        for driver in self.all_drivers:
            driver.process.send_signal(signal.SIGCONT)
            driver.process.wait()


def test_no_write_is_lost_or_doubled_and_nobody_writes_after_being_excluded(postgres, ledger_url, tmp_path):
    seed, faults = int(os.environ.get("LOOPTY_FAULT_SEED", "4")), int(os.environ.get("LOOPTY_FAULTS", "6"))
    chaos = Chaos(postgres, ledger_url, tmp_path, random.Random(seed))
    try:
        chaos.run(faults)
    finally:
        for driver in chaos.all_drivers:
            driver.process.kill()
            driver.process.wait()
    check(list(chaos.ledger.read()), chaos.all_drivers)
    assert chaos.ledger.flaw() is None
    chaos.ledger.close()


def check(events, drivers):
    """Every acknowledged write is there once, in order; after the end of an owner there is none of it."""
    assert [item.number for item in events] == list(range(1, len(events) + 1))
    written, ended = {}, set()
    for item in events[2:]:
        if item.event.operator == "end":
            ended.add(item.event.summary)
            continue
        owner, _, count = item.event.summary.rpartition(" ")
        assert owner not in ended, f"{owner} wrote event {item.number} after it was excluded"
        written.setdefault(owner, []).append((int(count), item.number))
    for driver in drivers:
        owner, *said = driver.said()
        found = written.get(owner, [])
        assert [count for count, _ in found] == list(range(len(found)))
        told = [int(word) for word in said if word != "lost"]
        numbers = [number for _, number in found]
        assert numbers[: len(told)] == told
        # Killed before it could say so, or excluded before it heard that its last write had succeeded.
        assert len(numbers) - len(told) <= (driver.process.returncode != 0 or "lost" in said)
        assert "lost" not in said or owner in ended
