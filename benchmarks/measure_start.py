"""CPU to start and print the version: an agent pays this on each of its hundreds of calls."""

from collections.abc import Iterator
from pathlib import Path

from bench import Bench
from cost import Cost, measure_cost, measure_in_turns
from table import Row, Target, cpu

_TARGET = Target("ratio below 0.25", 0.25)


def rows(bench: Bench) -> Iterator[Row]:
    def version(executable: Path) -> Cost:
        return measure_cost([str(executable), "--version"], bench.scratch, bench.env)

    evo = bench.evo_executable
    ours, theirs = measure_in_turns(
        2 * bench.repeats,
        lambda: version(bench.loopty_executable),
        (lambda: version(evo)) if evo else None,
    )
    yield Row("`--version`", cpu(ours), cpu(theirs, "evo"), _TARGET, of_ratio=True)
