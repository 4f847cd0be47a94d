"""Kill -9 of every process that lives while trials run, at any instant: what is lost or left behind."""

import contextlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench import Bench
from cost import run_for_output
from samples import process_tree
from table import NOTHING, Figure, Row, Target

_TASK = """\
[benchmark]
command = '''sleep 0.2; echo '{{"score": 1}}' > "$EVO_RESULT_PATH"'''
timeout_seconds = 60
[noise]
repeat = "never"
confirm = 0
[parameters.x]
type = "float"
low = 0.0
high = 1.0
[proposer]
kind = "random"
[budget]
attempts = {attempts}
"""
_TRIALS_PER_ROUND = 4
_GONE_SECONDS = 60.0
_NONE = Target("none", 0)


def rows(bench: Bench) -> Iterator[Row]:
    times = 10 if bench.quick else 40
    victims: Mapping[str, Callable[[int], int | None]] = {
        "loopty": lambda process: process,
        "the launcher": _launcher,
        "a trial's first process": _first_process,
    }
    for name, victim in victims.items():
        place = _Place(bench, "-".join(re.findall("[a-z]+", name)))
        rng, faults = random.Random(name), list[str]()
        while place.kills < times:  # a session may end before the blow falls
            faults += place.kill_once(victim, rng)
        figure = Figure(f"{len(faults)}", len(faults), note="; ".join(faults[:3]))
        yield Row(f"kill -9 of {name}, {place.kills} times: lost or left behind", figure, NOTHING, _NONE)


class _Place:
    """A repository in which `optimize` is started, struck and resumed."""

    def __init__(self, bench: Bench, name: str) -> None:
        self._temporary = bench.scratch / f"kills-{name}-tmp"
        self._temporary.mkdir()
        self._env = {**bench.env, "TMPDIR": str(self._temporary)}
        self._loopty = str(bench.loopty_executable)
        self._folder = bench.repository(f"kills-{name}", 1)
        self._budget = 0
        self._seconds = 1.0
        """How long the last session took: a blow may fall at any instant of it."""
        self.kills = 0
        self._finish_session()

    def kill_once(self, victim: Callable[[int], int | None], rng: random.Random) -> list[str]:
        """Kill the victim at a random instant of a session, resume, and return what is wrong then."""
        self._write_budget()
        argv = [self._loopty, "optimize", "--quiet"]
        process = subprocess.Popen(
            argv, cwd=self._folder, env=self._env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0, self._seconds))
        while process.poll() is None and (number := victim(process.pid)) is None:
            time.sleep(0.001)
        if process.poll() is None and number:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
                self.kills += 1
        known = self._events()
        process.wait()
        faults = [] if self._wait_until_alone() else ["a process was left behind"]
        self._finish_session()
        return [*faults, *self._faults(known)]

    def _finish_session(self) -> None:
        if not self._budget:
            self._write_budget()
        started = time.monotonic()
        self._verb("optimize", "--quiet")
        self._seconds = time.monotonic() - started

    def _write_budget(self) -> None:
        self._budget += _TRIALS_PER_ROUND
        (self._folder / "loopty.toml").write_text(_TASK.format(attempts=self._budget))

    def _faults(self, known: Mapping[int, bytes]) -> Iterator[str]:
        """What is lost or left behind after a session that was struck and one that went to its end."""
        now = self._events()
        if any(now.get(number) != digest for number, digest in known.items()):
            yield "an event was lost"
        status = json.loads(self._verb("status", "--json"))
        started = next(count["started"] for count in status["counts"] if count["pool"] == "attempt")
        if started != self._budget:
            yield f"{started} of {self._budget} attempts are counted"
        if status.get("running"):
            yield "a trial is recorded as running"
        if flaw := json.loads(self._verb("report", "--json", "--check")).get("flaw"):
            yield flaw
        for folder in (self._folder / ".git" / "loopty" / "trials", self._temporary):
            if left := sorted(path.name for path in folder.iterdir()):
                yield f"{left[0]} was left in {folder.name}"

    def _events(self) -> dict[int, bytes]:
        ledger = self._folder / ".git" / "loopty" / "ledger.sqlite"
        with contextlib.closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as db:
            return dict(db.execute("SELECT number, digest FROM events"))

    def _wait_until_alone(self) -> bool:
        """Wait until no descendant is left; orphans are seen, being ours."""
        deadline = time.monotonic() + _GONE_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if [*process_tree(os.getpid())] == [os.getpid()]:
                return True
            time.sleep(0.01)
        return False

    def _verb(self, *words: str) -> str:
        return run_for_output([self._loopty, *words], self._folder, self._env)


def _launcher(process: int) -> int | None:
    below = (pid for pid in process_tree(process) if pid != process)
    return next((pid for pid in below if _is_launcher(_command(pid))), None)


def _is_launcher(command: bytes) -> bool:
    """By its command line, before and after it has hidden how it was started."""
    return b"launcher_program" in command or command.startswith(b"trial\0")


def _first_process(process: int) -> int | None:
    launcher = _launcher(process)
    return next((pid for pid in process_tree(launcher) if pid != launcher), None) if launcher else None


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
