"""Memory of the process that drives a run, as the run grows."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import Bench
from cost import CommandFailed
from table import Figure, Row, Target

_FLAT = Target("at most ×1.1", 1.1)
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
_POLL_SECONDS = 0.2


def rows(bench: Bench) -> Iterator[Row]:
    trials = 2_000 if bench.quick else 20_000
    early = trials // 10
    loopty = bench.loopty("memory", files=10, attempts=trials)
    samples = _samples(bench, loopty.folder, loopty.count_trials)
    # While it drives: the closing summary reads the facts of every node, for a moment.
    first, last = (max(mb for done, mb in samples if done < count) for count in (early, trials))
    what = f"memory of `optimize` while it drives, after {trials:,} trials"
    yield Row(
        what,
        Figure(f"{last:.1f} MB", last),
        Figure(f"after {early:,}: {first:.1f} MB", first),
        _FLAT,
        of_ratio=True,
    )


def _samples(bench: Bench, folder: Path, count_trials: Callable[[], int]) -> list[tuple[int, float]]:
    """Trials done and MB used, several times a second, while `optimize` runs."""
    samples = []
    log = folder.with_suffix(".log")
    argv = [str(bench.loopty_executable), "optimize", "--quiet"]
    with log.open("wb") as stream:
        child = subprocess.Popen(
            argv, cwd=folder, env=bench.env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
        while child.poll() is None:
            samples.append((count_trials(), _memory_mb(child.pid)))
            time.sleep(_POLL_SECONDS)
    if child.returncode != 0:
        raise CommandFailed(argv, child.returncode, log.read_text(errors="replace"))
    return samples


def _memory_mb(pid: int) -> float:
    """The memory of a process that is its own: not files that it shares with others."""
    try:
        _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (resident - shared) * _PAGE_MB
