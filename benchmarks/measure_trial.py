"""CPU of one sandboxed trial whose benchmark does nothing: the cost of the harness itself."""

import itertools
from collections.abc import Iterator

from bench import Bench
from cost import Cost, measure_in_turns
from table import Row, Target, cpu

_FILES = 10
_TARGET = Target("ratio below 0.1", 0.1)


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
