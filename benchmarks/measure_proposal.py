"""CPU of one proposal whose model and evaluator answer at once: the cost of the harness itself."""

from collections.abc import Iterator
from pathlib import Path

import peers_openevolve
from bench import Bench
from cost import CommandFailed, Result
from samples import cost_per_unit, sample_command
from table import NOTHING, Row, Target, cpu, growth

_DRIVER = Path(__file__).with_name("loopty_instant.py")
_WARM_UP = 10
_BATCH = 4
_BELOW = Target("below 1", 1.0)
_FLAT = Target("at most ×1.2", 1.2)


def rows(bench: Bench) -> Iterator[Row]:
    proposals = 400 if bench.quick else 2000
    peer = cpu(_openevolve(bench), "OpenEvolve, first hundred:")
    for kind, batch in (("code", 1), ("code", _BATCH), ("parameters", 1)):
        first, last = _loopty(bench, kind, proposals, batch)
        what = f"{kind}, a call each" if batch == 1 else f"{kind}, {batch} in a call"
        yield Row(f"{what}, first hundred", cpu(first), peer, _BELOW, of_ratio=True)
        yield Row(f"{what}, last hundred of {proposals:,}", cpu(last), peer, _BELOW, of_ratio=True)
        yield Row("last hundred over first", growth(first, last), NOTHING, _FLAT)


def _loopty(bench: Bench, kind: str, proposals: int, batch: int) -> tuple[Result, Result]:
    folder = bench.scratch / f"proposal-{kind}-{batch}"
    folder.mkdir()
    evaluated = folder / "evaluated"
    evaluated.touch()
    argv = [
        str(bench.loopty_executable.with_name("python")),
        str(_DRIVER),
        kind,
        str(proposals),
        str(batch),
        str(folder),
    ]
    try:
        samples = sample_command(argv, folder, bench.env, lambda: evaluated.stat().st_size, folder / "log")
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
