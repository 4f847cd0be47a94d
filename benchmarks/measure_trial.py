"""CPU of one sandboxed trial whose benchmark does nothing: the cost of the harness itself."""

import itertools
from collections.abc import Iterator

from bench import Bench
from cost import Cost, measure_cost, measure_in_turns
from table import Row, Target, cpu

_FILES = 10
_TARGET = Target("ratio below 0.1", 0.1)
_FEW = 10
_ALONE_TARGET = Target("at most 16 ms", 0.016)
_SHELLS = 100
"""How many shells are started to learn what the benchmark's own process costs."""


def rows(bench: Bench) -> Iterator[Row]:
    trials = 50 if bench.quick else 200
    runs = itertools.count()

    def optimize() -> Cost:
        loopty = bench.loopty(f"trial-{next(runs)}", _FILES, attempts=trials)
        return loopty.verb("optimize") / trials

    evo = bench.evo("trial", _FILES)
    experiment = evo.new_and_run if evo else None
    ours, theirs = measure_in_turns(3, optimize, experiment)
    what = f"no-op trial in `optimize`, 1 of {trials}"
    yield Row(what, cpu(ours), cpu(theirs, "evo new + run"), _TARGET, of_ratio=True)

    def trial_alone(sandbox: str) -> Cost:
        """A trial without loopty's start and without the benchmark's own process."""
        few, many = (
            bench.loopty(f"alone-{next(runs)}", _FILES, attempts, sandbox).verb("optimize")
            for attempts in (_FEW, _FEW + trials)
        )
        loop = f"i=0; while [ $i -lt {_SHELLS} ]; do sh -c 'echo > /dev/null'; i=$((i+1)); done"
        shells = measure_cost(["/bin/sh", "-c", loop], bench.scratch, bench.env)
        return (many - few) / trials - shells / _SHELLS

    ours, theirs = measure_in_turns(3, lambda: trial_alone("auto"), lambda: trial_alone("bubblewrap"))
    what = "the same without loopty's start and the benchmark's own process"
    yield Row(what, cpu(ours), cpu(theirs, "under bubblewrap"), _ALONE_TARGET)
