"""Whether tune mode earns its place: the shipped credit policy with and without it, on simulated landscapes.

    .venv/bin/python benchmarks/search_tuning.py [SEEDS] [WORKERS]

It runs what is missing in `search_tuning_results.json`, then writes the table into docs/research/search.md.
The constants of a genome are the task's parameters; the shipped sampler `local` draws the points. A tune trial
costs its share of a trial, and all arms have the same budget. Seeds are those of `search.py`.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
from dataclasses import dataclass
from pathlib import Path

from page_tables import difference_table, write_table
from search import SETTINGS
from search_landscape import GRID, Genome, Landscape, make_landscape
from search_simulation import Simulation

from loopty.domain.objective import Direction
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.proposers.code.options import CodeOptions
from loopty.proposers.parameters.tune_samplers import draw_near_best
from loopty.record.tunings import TunePoint

RESULTS = Path(__file__).with_name("search_tuning_results.json")
TRIALS = 16
SETTING = SETTINGS["calls"]


@dataclass(frozen=True)
class Slice:
    """A cheaper target: its cost as a share of a trial, and the noise of one measurement of it."""

    share: float
    noise: float = 0.01


SLICES = {
    "no tune mode": None,
    "slice of 1 %": Slice(0.01),
    "slice of 3 %": Slice(0.03),
    "slice of 15 %": Slice(0.15),
    "slice of 3 %, noisy": Slice(0.03, noise=0.05),
}


class TunedSimulation(Simulation):
    """A search whose proposals are tuned on a slice first."""

    def __init__(self, land: Landscape, seed: int, part: Slice) -> None:
        super().__init__(land, CodeOptions(), seed)
        self._part = part
        self._tune_rng = random.Random(f"tune {seed}")

    def _prepare(self, genome: Genome, is_broken: bool) -> Genome:
        space, points = self._space(genome), list[TunePoint]()
        params = {name: genome.constants[int(name)] for name in space.parameters}
        if not params:
            return genome
        for _ in range(TRIALS):
            self._spent += self._part.share
            if is_broken:
                return genome
            points.append(TunePoint(params, self._slice_score(genome, params)))
            params = draw_near_best(space, points, Direction.MAX, self._tune_rng)
        best = max(points, key=lambda point: point.score)
        tuned = _with_params(genome, best.params)
        self._known.add(tuned)
        return tuned

    def _space(self, genome: Genome) -> Space:
        """The parameters of this program."""
        return Space({str(i): Parameter(ParameterKind.INT, 0, GRID) for i in range(len(genome.constants))})

    def _slice_score(self, genome: Genome, params: dict[str, int]) -> float:
        noise = self._part.noise + self._land.shape.noise
        return self._land.score(_with_params(genome, params))[0] + self._tune_rng.gauss(0, noise)


def _with_params(genome: Genome, params: dict[str, int]) -> Genome:
    values = (params.get(str(i), value) for i, value in enumerate(genome.constants))
    return genome._replace(constants=tuple(values))


def run_one(job: tuple[str, int]) -> tuple[str, list[float]]:
    name, seed = job
    land, part = make_landscape("random", seed), SLICES[name]
    simulation = TunedSimulation(land, seed, part) if part else Simulation(land, CodeOptions(), seed)
    result = simulation.run(SETTING.budget)
    return f"{name}|{seed}", [round(result.area, 6), round(result.final, 6), result.trials]


def table(known: dict[str, list[float]], strata: dict[str, list[int]]) -> str:
    lines = [
        f"Simulated, {TRIALS} tune trials for each proposal, {SETTING.budget:.0f} calls of budget for each arm, "
        "differences to the same search without tune mode, paired by shape, with 95 % intervals:",
        "",
    ]
    first, *rest = SLICES
    keys = {
        f"{name} roots": [lambda row, seed=seed: f"{row}|{seed}" for seed in seeds]
        for name, seeds in strata.items()
    }
    return "\n".join([*lines, *difference_table(known, "tune mode", rest, keys, first)])


def main(count: int, workers: int) -> None:
    known: dict[str, list[float]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    strata = {"fresh": SETTING.seeds(False, count), "mature": SETTING.seeds(True, count)}
    pairs = zip(*strata.values(), strict=True)
    jobs = [(name, seed) for pair in pairs for seed in pair for name in SLICES if f"{name}|{seed}" not in known]
    with multiprocessing.Pool(workers) as pool:
        for done, (key, result) in enumerate(pool.imap(run_one, jobs, chunksize=1), start=1):
            known[key] = result
            if done % 10 == 0 or done == len(jobs):
                RESULTS.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")
    write_table("tuning", table(known, strata))


if __name__ == "__main__":
    seeds, workers = (*sys.argv[1:], *("20", "2")[len(sys.argv) - 1 :])
    main(int(seeds), int(workers))
