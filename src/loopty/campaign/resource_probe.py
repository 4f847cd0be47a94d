"""Measures what one trial uses: its time, its CPU, its memory, and whether its score is the same each time."""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from loopty.campaign.by_hand import CheckResult
from loopty.domain.round_size import ResourceProfile
from loopty.sandboxes.resource_usage import threads_of_tree

_RUNS = 3
_PERIOD_SECONDS = 0.02
_PAGE_BYTES = resource.getpagesize()


def measure_profile(check: Callable[[], CheckResult]) -> ResourceProfile | None:
    """Check the baseline a few times and watch it; None where a check fails."""
    seconds, cores, scores, peak = list[float](), list[float](), set[tuple[tuple[str, float], ...]](), 0
    for _ in range(_RUNS):
        before, since = _cpu_seconds(), time.monotonic()
        with _watch_memory() as peaks:
            outcome = check().outcome
        if not outcome.is_finished:
            return None
        seconds.append(outcome.seconds)
        cores.append((_cpu_seconds() - before) / max(time.monotonic() - since, 0.001))
        scores.add(tuple(sorted(outcome.metrics.items())))
        peak = max(peak, *peaks)
    return ResourceProfile(
        max(round(statistics.median(seconds), 3), 0.001),
        round(max(cores), 2),
        max(peak >> 20, 1),
        len(scores) == 1,
    )


@contextlib.contextmanager
def _watch_memory() -> Iterator[list[int]]:
    """The memory of all processes below this one, looked at again and again while the block runs."""
    peaks, stop = [0], threading.Event()

    def look() -> None:
        while not stop.wait(_PERIOD_SECONDS):
            peaks[0] = max(peaks[0], _memory_below(os.getpid()))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        stop.set()
        thread.join()


def _memory_below(root: int) -> int:
    """Bytes. A page that processes share counts for each of them, so the sum is rather too high."""
    return sum(_resident_bytes(pid) for pid in threads_of_tree(root) if pid != root)


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def _cpu_seconds() -> float:
    """Of the processes below this one that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
