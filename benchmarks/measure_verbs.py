"""CPU of one experiment by verbs, `new` and `run`: each in its own process, and through a resident process."""

import os
from collections.abc import Iterator
from pathlib import Path

from bench import Bench
from cost import Cost, measure_in_turns
from loopty_cli import Loopty
from table import Row, Target, cpu

_FILES = 10
_EXPERIMENTS = 3
"""Per measurement: the kernel counts the CPU of the resident process in steps of 10 ms."""
_TICKS = os.sysconf("SC_CLK_TCK")


def rows(bench: Bench) -> Iterator[Row]:
    evo = bench.evo("verbs", _FILES)
    experiment = evo.new_and_run if evo else None
    alone = bench.loopty("verbs-alone", _FILES, attempts=1000)
    alone.run_baseline()
    ours, theirs = measure_in_turns(bench.repeats, alone.new_and_run, experiment)
    target = Target("ratio below 0.5", 0.5)
    yield Row("`new` + `run`, each by itself", cpu(ours), cpu(theirs, "evo new + run"), target, of_ratio=True)

    served = bench.loopty("verbs-resident", _FILES, attempts=1000)
    served.run_baseline()
    process = served.start_resident()
    try:
        ours, theirs = measure_in_turns(bench.repeats, lambda: _through_resident(served, process), experiment)
    finally:
        served.verb("serve", "--stop")
    target = Target("ratio below 0.15", 0.15)
    what = "`new` + `run`, through a resident process"
    yield Row(what, cpu(ours), cpu(theirs, "evo new + run"), target, of_ratio=True)


def _through_resident(loopty: Loopty, process: int) -> Cost:
    """One experiment: what the clients cost, and what the resident process and its verbs cost meanwhile."""
    before, cost = _cpu_seconds(process), Cost(0, 0)
    for _ in range(_EXPERIMENTS):
        cost += loopty.new_and_run()
    return (cost + Cost(_cpu_seconds(process) - before, 0)) / _EXPERIMENTS


def _cpu_seconds(process: int) -> float:
    """CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS
