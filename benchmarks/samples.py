"""Sample a running process: what each further unit of work costs it."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import sysconf
from pathlib import Path

from cost import CommandFailed, Cost

_TICKS_PER_SECOND = sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    done: int
    """Units of work done."""
    cost: Cost
    """The cost so far."""


def sample_command(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], count_done: Callable[[], int], log: Path
) -> list[Sample]:
    """Run a command to its end and sample, many times a second, how much it has done and spent.

    Raises CommandFailed when its exit status is not zero.
    """
    samples: list[Sample] = []
    with log.open("wb") as stream:
        started = time.monotonic()
        child = subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        while child.poll() is None:
            cpu_seconds = tree_cpu_seconds(child.pid)
            samples.append(Sample(count_done(), Cost(cpu_seconds, time.monotonic() - started)))
            time.sleep(_POLL_SECONDS)
    if child.returncode != 0:
        raise CommandFailed(argv, child.returncode, log.read_text(errors="replace"))
    return samples


def cost_per_unit(samples: Sequence[Sample], first: int, last: int) -> Cost:
    """The mean cost of one unit between two counts of work done.

    It takes the samples nearest to the two counts and divides their cost by the work between them. Raises
    CommandFailed when they are not apart.
    """
    start = min(samples, key=lambda sample: abs(sample.done - first))
    end = min(samples, key=lambda sample: abs(sample.done - last))
    if end.done <= start.done:
        raise CommandFailed(["sampling"], 1, f"no progress seen between {first} and {last}")
    spent = Cost(end.cost.cpu_seconds - start.cost.cpu_seconds, end.cost.wall_seconds - start.cost.wall_seconds)
    return spent / (end.done - start.done)


def tree_cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, of its living descendants, and of the children that these have reaped."""
    return sum(_cpu_ticks(each) for each in process_tree(pid)) / _TICKS_PER_SECOND


def process_tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from process_tree(int(child))
    except (FileNotFoundError, ProcessLookupError):
        return


def _cpu_ticks(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # The command name may contain spaces and brackets, so the fields are counted from the last bracket.
    fields = stat.rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15])
