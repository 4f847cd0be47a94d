"""The product and other tools on the same wire, tasks and number of evaluations.

    .venv/bin/python benchmarks/search_tools.py [TOOL+TOOL…]

It runs what is missing in `search_tools_results.json`, then writes the figures into docs/research/search.md. A
shape is a random one without noise; its seed is used by nothing else. How many there are was fixed before the
runs: 40 of each kind, then 80 more with mature roots, where differences are small. Each tool gets as many
evaluations of new programs, and repeats of a program cost nothing. Peers are installed from the package index,
each into its own environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import peers
from search_landscape import random_shape
from search_product import run_loopty
from search_program import make_task
from search_tools_page import write_tools_page
from search_wire import SimulatedModel, serve

FIRST_SEED = 300_000
EVALUATIONS = 60
SHAPES = {"fresh": 40, "mature": 120}
_LIMIT_SECONDS = 600
RESULTS = Path(__file__).with_name("search_tools_results.json")
_LOCK = Path(__file__).parents[1] / "build" / "search_tools.lock"
_CACHE = Path(__file__).parents[1] / "build" / "peers"
_DRIVER = Path(__file__).with_name("search_peer_driver.py")

_STATIC = "weights = { diff = 0.6, rewrite = 0.25, fix = 0.15 }\n"
_MUTATE = "operators = ['diff', 'rewrite', 'fix', 'draft', 'mutate']\n"
LOOPTY = {
    "loopty": "",
    "loopty, static": _STATIC,
    "loopty, uniform": (
        "operators = ['diff', 'rewrite', 'crossover', 'fix']\ndrafts = 0\n"
        "weights = { diff = 1, rewrite = 1, crossover = 1, fix = 1 }\n"
    ),
    "loopty, mutate": _MUTATE,
    "loopty, best-of-N": "operators = ['draft']\nweights = { draft = 1 }\ndrafts = 0\n",
    "loopty, root": _STATIC + "operators = ['diff', 'rewrite', 'fix']\ndrafts = 0\nparents = 'root'\n",
}
TAKEN_OUT = ("loopty, parts",)
"""Measured with the operator `part`, which is no longer in loopty: the page keeps the recorded row."""
PEERS = {"openevolve": peers.OPENEVOLVE, "gepa": peers.GEPA, "shinka": peers.SHINKA}
PEERS |= {"skydiscover topk": peers.SKYDISCOVER, "skydiscover adaevolve": peers.SKYDISCOVER}


def seeds_of(stratum: str) -> list[int]:
    count, mature = SHAPES[stratum], stratum == "mature"
    found = (seed for seed in range(FIRST_SEED, FIRST_SEED + 100 * count) if random_shape(seed).mature is mature)
    return [next(found) for _ in range(count)]


def run_one(tool: str, seed: int) -> dict[str, float | int] | None:
    """What the tool reached; None where it cannot be installed."""
    land = make_task(seed)
    model = SimulatedModel(land, seed)
    started = time.process_time()
    with serve(model) as url:
        if tool in LOOPTY:
            scores = run_loopty(land, seed, EVALUATIONS, url, LOOPTY[tool])
        elif (place := peers.install(_CACHE, PEERS[tool])) is None:
            return None
        else:
            scores = _run_peer(place / "python", tool, seed, url)
    return {
        **_figures(scores[:EVALUATIONS]),
        "calls": model.calls,
        "tokens": model.tokens,
        "seconds": round(time.process_time() - started, 1),
    }


def _run_peer(python: Path, tool: str, seed: int, url: str) -> list[float]:
    """The scores of new programs in their order, without the first program's."""
    with TemporaryDirectory(prefix="loopty-search-") as top:
        folder = Path(top)
        scores = folder / "scores"
        with (folder / "log").open("wb") as log:
            command = [str(python), str(_DRIVER), tool, url, str(seed), str(EVALUATIONS), top]
            env = {**os.environ, "OPENAI_API_KEY": "x", "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}
            process = subprocess.Popen(command, cwd=top, env=env, stdout=log, stderr=log, start_new_session=True)
            try:
                _wait(process, scores)
            finally:
                _end(process)
        lines = scores.read_text().split() if scores.exists() else []
        if len(lines) <= EVALUATIONS:
            tail = (folder / "log").read_text(errors="replace")[-600:]
            print(f"{tool} {seed}: {max(len(lines) - 1, 0)} evaluations: {tail}", file=sys.stderr)
        return [float("-inf") if line == "x" else float(line) for line in lines[1:]]


def _wait(process: subprocess.Popen[bytes], scores: Path) -> None:
    until = time.monotonic() + _LIMIT_SECONDS
    while process.poll() is None and time.monotonic() < until:
        if scores.exists() and scores.read_text().count("\n") > EVALUATIONS:
            return
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the tool with its workers: they are a session of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _figures(scores: list[float]) -> dict[str, float | int]:
    best = list(_best_so_far(scores))
    best += [best[-1] if best else 0.0] * (EVALUATIONS - len(best))
    broken = sum(score == float("-inf") for score in scores)
    return {
        "area": round(sum(best) / EVALUATIONS, 4),
        "final": round(best[-1], 4),
        "evaluations": len(scores),
        "broken": broken,
    }


def _best_so_far(scores: list[float]) -> Iterator[float]:
    best = 0.0
    for score in scores:
        best = max(best, score)
        yield best


def _save(key: str, result: dict[str, float | int]) -> dict[str, dict[str, float | int]]:
    """Add a result to those that this process and others have found; returns all of them."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known: dict[str, dict[str, float | int]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        known[key] = result
        lines = (f"{json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known))
        fresh = RESULTS.with_suffix(".new")
        fresh.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        fresh.replace(RESULTS)
    return known


def main(tools: list[str]) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    strata = {stratum: seeds_of(stratum) for stratum in SHAPES}
    for seed in itertools.chain(*strata.values()):
        for tool in tools:
            if f"{tool}|{seed}" not in known and (result := run_one(tool, seed)):
                print(tool, seed, result, file=sys.stderr, flush=True)
                known = _save(f"{tool}|{seed}", result)
    write_tools_page(known, strata, [*LOOPTY, *TAKEN_OUT, *PEERS])


if __name__ == "__main__":
    main(sys.argv[1].split("+") if len(sys.argv) > 1 else [*LOOPTY, *PEERS])
