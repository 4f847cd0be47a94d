"""Finds out how fast trials can go: what a run uses, and whether the score is the same warm and beside another."""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopty.domain.task_tables import ResourceProfile
from loopty.domain.trial import Outcome
from loopty.evaluators.warm_commands import PythonCommand
from loopty.features.setup.proven_task import MeasuredNoise, ProvenTask, Usage
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.records import Record
from loopty.sandboxes.resource_usage import threads_of_tree

_PERIOD_SECONDS = 0.02


@contextlib.contextmanager
def watch_processes() -> Iterator[list[Usage]]:
    """Watch the processes below this one while the block runs; the list has what they used after it.

    What a sandbox starts is not waited for by this process, so the kernel does not add it up here.
    """
    used, stop, peak, spent = list[Usage](), threading.Event(), [0], dict[Path, tuple[int, int]]()

    def look() -> None:
        while not stop.wait(_PERIOD_SECONDS):
            tree = {pid: of for pid, of in threads_of_tree(os.getpid()).items() if pid != os.getpid()}
            peak[0] = max(peak[0], sum(map(_pages, tree)))
            spent.update(
                {thread: times for of in tree.values() for thread in of if (times := _ran_and_waited(thread))}
            )

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield used
    finally:
        stop.set()
        thread.join()
        ran, waited = (sum(times[of] for times in spent.values()) / 1e9 for of in (0, 1))
        used.append(Usage(ran, max(peak[0] * resource.getpagesize() >> 20, 1), waited))


def _pages(pid: int) -> int:
    """Read the pages of a process. A page that processes share counts for each of them."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[21])
    return 0


def _ran_and_waited(thread: Path) -> tuple[int, int] | None:
    """Read the nanoseconds in which a thread ran, and in which it could have, and waited for a CPU."""
    with contextlib.suppress(OSError, ValueError):
        ran, waited, _slices = map(int, (thread / "schedstat").read_text().split())
        return ran, waited
    return None


_MOST_SHARE = 0.99
"""More is not told from everything by one run."""


def profile_of(proven: ProvenTask) -> ResourceProfile:
    """Say what a run uses, from runs that were watched; the first was not."""
    noise = proven.noise
    share = proven.sensitivity.highest_share if proven.sensitivity else None
    share = None if share is None else min(share, _MOST_SHARE)
    if noise is None:
        return ResourceProfile(seconds=round(proven.check.outcome.seconds, 3), editable_share=share)
    seconds = noise.seconds[1:]
    return ResourceProfile(
        seconds=max(round(statistics.median(seconds), 3), 0.001),
        cores=round(noise.usage.busy_seconds / max(sum(seconds), 0.001), 2),
        memory_mb=noise.usage.memory_mb,
        steady=len(set(noise.values)) == 1,
        editable_share=share,
    )


_LONG_SECONDS = 20.0
_FASTER = 1.2
_LEAST_TOLERANCE = 0.05


class WarmProof(Record):
    """What runs as copies of a warm process showed."""

    gain: float = 1.0
    """How many times as fast they are."""
    refusal: str = ""
    """Why trials start by themselves; empty if copies give the same score, and faster."""


def warm_refusal(draft: TaskDraft, noise: MeasuredNoise) -> str:
    """Tell why a warm start is not tried, or an empty text."""
    if PythonCommand.parse(("/bin/sh", "-c", draft.command)) is None:
        return "the command is not one call of Python"
    if draft.writable_copy or draft.network or draft.devices:
        return "the benchmark uses a writable copy, the network or a device"
    computing = noise.usage.cpu_seconds / max(len(noise.seconds) - 1, 1)
    return f"not tried, as a run computes for {computing:.2g} s" if computing >= _LONG_SECONDS else ""


def prove_warm(noise: MeasuredNoise, warm: Sequence[Outcome]) -> WarmProof:
    """Compare runs as copies of a warm process with others. The first of them starts the process."""
    copies = [one for one in warm[1:] if one.is_finished and noise.metric in one.metrics]
    if not copies or len(copies) < len(warm) - 1:
        return WarmProof(refusal="a copy of a warm process gave no score")
    low, high = min(noise.values), max(noise.values)
    slack = max(high - low, _LEAST_TOLERANCE * max(abs(low), abs(high))) if low != high else 0.0
    scores = [one.metrics[noise.metric] for one in copies]
    if other := [score for score in scores if not low - slack <= score <= high + slack]:
        return WarmProof(refusal=f"the score changes: {low:g} to {high:g} without it, and {other[0]:g} with it")
    # The shortest: others on the machine only add to it.
    cold, warmed = min(noise.seconds[1:]), min(one.seconds for one in copies)
    gain = cold / max(warmed, 0.001)
    if gain < _FASTER:
        return WarmProof(refusal=f"a run takes {cold:.2g} s without it, and {warmed:.2g} s with it")
    return WarmProof(gain)


def is_same_beside(noise: MeasuredNoise, together: Sequence[Outcome]) -> bool:
    """Say whether runs at the same time gave the score that each gives alone."""
    return all(one.is_finished and one.metrics.get(noise.metric) == noise.values[0] for one in together)
