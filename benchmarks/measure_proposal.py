"""CPU of one proposal whose model and evaluator answer at once: the cost of the harness itself.

A machine is rarely idle, so the first hundred are also measured while other processes use every core, and after
many files were deleted, which makes new ones slow on some disks. Loopty and its peer take turns each time.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import peers_openevolve
from bench import Bench
from cost import CommandFailed, Cost, Result
from samples import cost_per_unit, sample_command
from table import NOTHING, Row, Target, cpu, growth

_DRIVER = Path(__file__).with_name("loopty_instant.py")
_WARM_UP = 10
_BATCH = 4
_TURNS = 9
_DELETED_FILES = 20_000
_BELOW = Target("at most 0.7", 0.7)
_FLAT = Target("at most ×1.2", 1.2)


def rows(bench: Bench) -> Iterator[Row]:
    for condition, prepare in (("idle", _nothing), ("under load", _load), ("after a deletion", _deletion)):
        with prepare(bench):
            pairs = [_pair(bench, f"{condition} {turn}".replace(" ", "-")) for turn in range(_TURNS)]
        ours, peer = (_middle([pair[side] for pair in pairs]) for side in (0, 1))
        what = f"code, a call each, {condition}, first hundred"
        yield Row(what, cpu(ours), cpu(peer, "OpenEvolve:"), _BELOW, of_ratio=True)
    peer = _openevolve(bench, "alone")
    for kind, batch in (("code", 1), ("code", _BATCH), ("parameters", 1)):
        proposals = 400 if bench.quick else 10_000 if (kind, batch) == ("code", 1) else 2000
        first, last = _loopty(bench, f"{kind}-{batch}", kind, proposals, batch)
        what = f"{kind}, a call each" if batch == 1 else f"{kind}, {batch} in a call"
        beside = cpu(peer, "OpenEvolve, first hundred:")
        yield Row(f"{what}, first hundred", cpu(first), beside, _BELOW, of_ratio=True)
        yield Row(f"{what}, last hundred of {proposals:,}", cpu(last), beside, _BELOW, of_ratio=True)
        yield Row("last hundred over first", growth(first, last), NOTHING, _FLAT)


def _pair(bench: Bench, name: str) -> tuple[Result, Result]:
    return _loopty(bench, name, "code", _WARM_UP + 110, 1)[0], _openevolve(bench, name)


def _middle(results: list[Result]) -> Result:
    """The median, or what failed."""
    costs = [result for result in results if isinstance(result, Cost)]
    if len(costs) < len(results):
        return next(result for result in results if not isinstance(result, Cost))
    return sorted(costs, key=lambda cost: cost.cpu_seconds)[len(costs) // 2]


@contextlib.contextmanager
def _nothing(_bench: Bench) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _load(_bench: Bench) -> Iterator[None]:
    """A process on every core that never waits."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _deletion(bench: Bench) -> Iterator[None]:
    """Just after many files were deleted."""
    folder = bench.scratch / "deleted"
    folder.mkdir()
    for number in range(_DELETED_FILES):
        (folder / str(number)).write_bytes(b"x")
    for number in range(_DELETED_FILES):
        (folder / str(number)).unlink()
    yield


def _loopty(bench: Bench, name: str, kind: str, proposals: int, batch: int) -> tuple[Result, Result]:
    folder = bench.scratch / f"proposal-{name}"
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


def _openevolve(bench: Bench, name: str) -> Result:
    if bench.openevolve_python is None:
        return None
    folder = bench.scratch / f"proposal-openevolve-{name}"
    try:
        samples = peers_openevolve.iterations(bench.openevolve_python, 150, folder, bench.env)
        return cost_per_unit(samples, _WARM_UP, _WARM_UP + 100)
    except CommandFailed as failure:
        return failure
