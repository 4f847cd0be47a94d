"""One campaign with workers, measured from outside: trials a second, and the CPU of the driver for each."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import repository

from loopty.domain.trial import Ending, Pool
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.trials import MachineSeen, TrialEnded, TrialStarted, trial_name

_LOOPTY = (sys.executable, "-m", "loopty")
_SIMULATED = Path(__file__).with_name("simulated_workers.py")
_TASK = """\
[benchmark]
command = '''{command}'''
timeout_seconds = 60

[parameters.x]
type = "float"
low = 0.0
high = 1.0

[proposer]
kind = "random"

[budget]
attempts = {attempts}

[noise]
repeat = "never"

[executor]
lease_seconds = 60
"""
_SCORE = (
    'x=$(sed \'s/.*"x": *\\([0-9.e-]*\\).*/\\1/\' "$LOOPTY_PARAMS"); echo "{\\"score\\": $x}" > "$EVO_RESULT_PATH"'
)


@dataclass(frozen=True, slots=True)
class DriverFigures:
    """What one campaign showed."""

    workers: int
    trials: int
    trial_seconds: float
    ledger: str
    per_second: float
    """Trials a second, over the middle four fifths of them."""
    driver_cpu_ms: float
    """CPU of the driver for one trial, with its start spread over all."""
    driver_busy: float
    """The share of one core that the driver used."""
    load: float
    """The machine's load average when it ended."""


def measure_driver(
    workers: int, trials: int, seconds: float, simulated: bool, ledger_url: str = "", options: Sequence[str] = ()
) -> DriverFigures:
    """Run a campaign of this many trials of this many seconds; `options` go to the driver's interpreter."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        env = {**repository.environment(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
        if ledger_url:
            env["LOOPTY_LEDGER"] = ledger_url
        top = _campaign(folder, trials, seconds, env)
        with _driver(top, env, folder / "driver.log", options) as (driver, url):
            start = _start_simulated if simulated else _start_real
            processes = start(workers, seconds, url, folder, env)
            try:
                cpu, wall = _wait(driver)
            finally:
                for process in processes:
                    process.terminate()
                    process.wait()
        if driver.returncode:
            raise RuntimeError((folder / "driver.log").read_text()[-2000:])
        times = _end_times(ledger_url or f"sqlite://{top}/.git/loopty/ledger.sqlite", trials)
    first, last = len(times) // 10, len(times) - len(times) // 10 - 1
    return DriverFigures(
        workers,
        trials,
        seconds,
        "PostgreSQL" if ledger_url else "SQLite",
        (last - first) / (times[last] - times[first]),
        1000 * cpu / trials,
        cpu / wall,
        os.getloadavg()[0],
    )


def _campaign(folder: Path, trials: int, seconds: float, env: dict[str, str]) -> Path:
    top = folder / "repository"
    top.mkdir()
    command = (f"sleep {seconds:g}; " if seconds else "") + _SCORE
    (top / "loopty.toml").write_text(_TASK.format(command=command, attempts=trials))
    repository.start(top, env)
    return top


@contextmanager
def _driver(
    top: Path, env: dict[str, str], log: Path, options: Sequence[str]
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    program = (sys.executable, *options, *_LOOPTY[1:])
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*program, "optimize", "--quiet", "--listen", "127.0.0.1:0"],
            cwd=top,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        until = time.monotonic() + 120
        while not (found := re.search(r"'(loopty://\S+)'", log.read_text())):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError(f"the driver shows no URL: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield process, found[1]
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def _start_real(
    workers: int, _seconds: float, url: str, folder: Path, env: dict[str, str]
) -> list[subprocess.Popen[bytes]]:
    return [
        subprocess.Popen(
            [*_LOOPTY, "worker", "--trust", "--dir", str(folder / f"worker{number}")],
            env={**env, "LOOPTY_WORKER_URL": url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(workers)
    ]


def _start_simulated(
    workers: int, seconds: float, url: str, _folder: Path, env: dict[str, str]
) -> list[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(_SIMULATED), str(workers), str(seconds)], env=env, stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(url.encode())
    process.stdin.close()
    return [process]


def _wait(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Wait for the end; returns its CPU and how long it took."""
    started = time.monotonic()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, time.monotonic() - started


def _end_times(url: str, attempts: int) -> list[float]:
    """When the trials of the baseline and of all attempts ended, each of them once.

    Others end only where workers have machines of several kinds, or one whose facts were not all found under load:
    before anything is compared there, the best node and the baseline are measured. A lost lease ends nothing.
    """
    pools: dict[str, Pool] = {}
    ended, machines = [], 0
    for recorded in open_ledger(url).read():
        event = recorded.event
        machines += isinstance(event, MachineSeen)
        if isinstance(event, TrialStarted):
            pools[trial_name(event.node, event.number)] = event.pool
        elif isinstance(event, TrialEnded):
            assert event.outcome.ending is Ending.FINISHED, event
            ended.append((pools.pop(trial_name(event.node, event.number)), recorded.at))
    assert not pools, pools
    others = Counter(pool for pool, _ in ended if pool is not Pool.ATTEMPT)
    assert set(others) <= ({Pool.REBASE} if machines > 1 else set()), (others, machines)
    assert len(ended) - others.total() == attempts + 1, (len(ended), others, attempts)
    return sorted(at for pool, at in ended if pool is Pool.ATTEMPT)
