"""CPU per trial as the record grows: the last hundred trials beside the first hundred."""

from collections.abc import Callable, Iterator, Sequence

import peers_openevolve
from bench import Bench
from cost import CommandFailed, Result
from samples import Sample, cost_per_unit
from table import Row, Target, cpu, growth

_WARM_UP = 10
"""Trials before the first hundred: start-up would make that hundred look expensive, and the growth small."""
_TARGET = Target("at most ×1.2", 1.2)


def rows(bench: Bench) -> Iterator[Row]:
    trials, iterations = (500, 300) if bench.quick else (5000, 500)
    loopty = bench.loopty("growth", files=10, attempts=trials)
    first, last = _first_and_last_hundred(loopty.watch_optimize, trials)
    peer_first, peer_last = _openevolve(bench, iterations)
    peer = f"OpenEvolve, of {iterations}:"
    yield Row(f"trial, first hundred of {trials:,}", cpu(first), cpu(peer_first, peer))
    yield Row(f"trial, last hundred of {trials:,}", cpu(last), cpu(peer_last, peer))
    yield Row("last hundred over first", growth(first, last), growth(peer_first, peer_last, peer), _TARGET)


def _openevolve(bench: Bench, iterations: int) -> tuple[Result, Result]:
    python = bench.openevolve_python
    if python is None:
        return None, None
    folder = bench.scratch / "openevolve"
    return _first_and_last_hundred(
        lambda: peers_openevolve.iterations(python, iterations, folder, bench.env), iterations
    )


def _first_and_last_hundred(run: Callable[[], Sequence[Sample]], count: int) -> tuple[Result, Result]:
    """The cost of one unit in the first hundred and in the last hundred."""
    try:
        samples = run()
        return cost_per_unit(samples, _WARM_UP, _WARM_UP + 100), cost_per_unit(samples, count - 100, count)
    except CommandFailed as failure:
        return failure, failure
