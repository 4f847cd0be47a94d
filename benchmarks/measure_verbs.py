"""CPU of one experiment by verbs: `new` and `run`."""

from collections.abc import Iterator

from bench import Bench
from cost import measure_in_turns
from table import Row, Target, cpu

_FILES = 10


def rows(bench: Bench) -> Iterator[Row]:
    evo = bench.evo("verbs", _FILES)
    loopty = bench.loopty("verbs", _FILES, attempts=1000)
    loopty.run_baseline()
    ours, theirs = measure_in_turns(bench.repeats, loopty.new_and_run, evo.new_and_run if evo else None)
    yield Row(
        "`new` + `run`", cpu(ours), cpu(theirs, "evo new + run"), Target("ratio below 0.5", 0.5), of_ratio=True
    )
