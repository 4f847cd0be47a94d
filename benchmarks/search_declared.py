"""Whether parameters that programs declare earn their place: the shipped credit policy, on simulated landscapes.

    .venv/bin/python benchmarks/search_declared.py [SHAPES] [WORKERS]

It runs what is missing in `search_declared_results.json`, then writes the table into docs/research/search.md.
The task names the constants of the first program; a block that a model writes has others, which only the program
itself can declare. Lines stay with the code, so a block that was once written is declared from then on. Nothing
was chosen by these seeds.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from page_tables import difference_table, write_table
from search import SETTINGS
from search_landscape import CONSTANTS, GRID, Genome, Landscape, make_landscape
from search_simulation import Simulation
from search_tuning import SLICES, TRIALS, TunedSimulation

from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.proposers.code.options import CodeOptions

RESULTS = Path(__file__).with_name("search_declared_results.json")
BUDGET = SETTINGS["calls"].budget
FIRST_SEED = 600_000
SHAPES = {"conditional": "made for it, fresh", "conditional+": "made for it, mature"}
OFF, TASK, DECLARED, HALF = "no tune mode", "the task's own", "declared", "declared, every second one forgotten"
ARMS = (OFF, TASK, DECLARED, HALF)


class DeclaredSimulation(TunedSimulation):
    """A search in which some constants of a program are parameters, and the others stay as they were written."""

    def __init__(self, land: Landscape, seed: int, arm: str) -> None:
        part = SLICES["slice of 3 %"]
        assert part is not None
        super().__init__(land, seed, part)
        self._arm = arm

    def _space(self, genome: Genome) -> Space:
        parameter = Parameter(ParameterKind.INT, 0, GRID)
        return Space({str(i): parameter for i in range(len(genome.constants)) if self._is_parameter(genome, i)})

    def _is_parameter(self, genome: Genome, index: int) -> bool:
        block, root = index // CONSTANTS, self._land.root
        is_first = (genome.paradigm, genome.blocks[block]) == (root.paradigm, root.blocks[block])
        if is_first or self._arm == TASK:
            return is_first and self._arm == TASK
        where = f"{self._seed} {genome.paradigm} {genome.blocks[block]} {index}"
        return self._arm == DECLARED or random.Random(where).random() < 0.5


def run_one(job: tuple[str, str, int]) -> tuple[str, list[float]]:
    shape, arm, seed = job
    land = make_landscape(shape, seed)
    simulation = Simulation(land, CodeOptions(), seed) if arm == OFF else DeclaredSimulation(land, seed, arm)
    result = simulation.run(BUDGET)
    return f"{shape}|{arm}|{seed}", [round(result.area, 6), round(result.final, 6), result.trials]


def table(known: dict[str, list[float]], seeds: Sequence[int]) -> str:
    lines = [
        f"Simulated, slice of 3 %, {TRIALS} tune trials for each proposal, {BUDGET:.0f} calls of budget for each "
        "arm, differences to the same search without tune mode, paired by shape, with 95 % intervals:",
        "",
    ]
    strata = {
        title: [lambda arm, shape=shape, seed=seed: f"{shape}|{arm}|{seed}" for seed in seeds]
        for shape, title in SHAPES.items()
    }
    return "\n".join([*lines, *difference_table(known, "parameters", ARMS[1:], strata, OFF)])


def main(count: int, workers: int) -> None:
    known: dict[str, list[float]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    jobs = [(shape, arm, seed) for seed in seeds for shape in SHAPES for arm in ARMS]
    jobs = [job for job in jobs if "|".join(map(str, job)) not in known]
    with multiprocessing.Pool(workers) as pool:
        for done, (key, result) in enumerate(pool.imap(run_one, jobs, chunksize=1), start=1):
            known[key] = result
            if done % 8 == 0 or done == len(jobs):
                RESULTS.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")
    write_table("declared", table(known, seeds))


if __name__ == "__main__":
    shapes, workers = (*sys.argv[1:], *("24", "2")[len(sys.argv) - 1 :])
    main(int(shapes), int(workers))
