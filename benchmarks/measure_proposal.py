"""CPU of one proposal of a model that answers at once, scored at once: what the harness itself takes."""

from collections.abc import Iterator
from pathlib import Path

import peers_openevolve
from bench import Bench
from cost import CommandFailed, Result
from sampling import cost_per_unit, watch
from table import NOTHING, Row, Target, cpu, growth

_DRIVER = Path(__file__).with_name("loopty_instant.py")
_WARM_UP = 10
_BATCH = 4
_BELOW = Target("below 1", 1.0)
_FLAT = Target("at most ×1.2", 1.2)


def rows(bench: Bench) -> Iterator[Row]:
    proposals = 400 if bench.quick else 2000
    peer = cpu(_openevolve(bench), "OpenEvolve, first hundred:")
    for batch in (1, _BATCH):
        first, last = _loopty(bench, proposals, batch)
        what = "a call each" if batch == 1 else f"{batch} in a call"
        yield Row(f"proposal, {what}, first hundred", cpu(first), peer, _BELOW, of_ratio=True)
        yield Row(f"proposal, {what}, last hundred of {proposals:,}", cpu(last), peer, _BELOW, of_ratio=True)
        yield Row("last hundred over first", growth(first, last), NOTHING, _FLAT)


def _loopty(bench: Bench, proposals: int, batch: int) -> tuple[Result, Result]:
    folder = bench.scratch / f"proposal-{batch}"
    folder.mkdir()
    evaluated = folder / "evaluated"
    evaluated.touch()
    argv = [
        str(bench.loopty_executable.with_name("python")),
        str(_DRIVER),
        str(proposals),
        str(batch),
        str(folder),
    ]
    try:
        samples = watch(argv, folder, bench.env, lambda: evaluated.stat().st_size, folder / "log")
        first = cost_per_unit(samples, _WARM_UP, _WARM_UP + 100)
        return first, cost_per_unit(samples, proposals - 100, proposals)
    except CommandFailed as failure:
        return failure, failure


def _openevolve(bench: Bench) -> Result:
    if bench.openevolve_python is None:
        return None
    folder = bench.scratch / "proposal-openevolve"
    try:
        samples = peers_openevolve.iterations(bench.openevolve_python, 150, folder, bench.env)
        return cost_per_unit(samples, _WARM_UP, _WARM_UP + 100)
    except CommandFailed as failure:
        return failure
