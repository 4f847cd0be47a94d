"""Which search policies earn their place: the shipped policy against controls, on simulated landscapes.

    .venv/bin/python benchmarks/search.py [SEEDS] [WORKERS] [POLICY,POLICY…]

It runs what is missing in `search_results.json`, then writes the figures into docs/search.md.

A policy is a set of options of `llm-code`; the shipped plan, selectors and fold decide (`search_simulation.py`).
Fresh and mature starts are never pooled. The seeds from 50000 on are looked at once, with all constants frozen.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Sequence
from pathlib import Path

from search_coder import CHEAP, STRONG, Skill
from search_landscape import make_landscape, random_shape
from search_page import write_page
from search_simulation import Simulation

from loopty.proposers.code.code_options import CodeOptions, Operator, Policy

FIRST_SEED = 50_000
BUDGET = 300.0
RESULTS = Path(__file__).with_name("search_results.json")
PAGE = Path(__file__).parents[1] / "docs" / "search.md"

_OLD = (Operator.DIFF, Operator.REWRITE, Operator.CROSSOVER, Operator.FIX)
_DEFAULT = (Operator.DIFF, Operator.REWRITE, Operator.FIX, Operator.DRAFT)
_STATIC = {"diff": 0.6, "rewrite": 0.25, "fix": 0.15}
_TWO = (CHEAP, STRONG)

Entry = tuple[CodeOptions, tuple[Skill, ...]]

POLICIES: dict[str, Entry] = {
    "static": (CodeOptions(policy=Policy.WEIGHTS, weights=_STATIC), (CHEAP,)),
    "credit": (CodeOptions(), (CHEAP,)),
    "uniform": (CodeOptions(policy=Policy.WEIGHTS, operators=_OLD, drafts=0), (CHEAP,)),
    "best-of-N": (CodeOptions(policy=Policy.WEIGHTS, operators=(Operator.DRAFT,), drafts=0), (CHEAP,)),
    "root": (
        CodeOptions(policy=Policy.WEIGHTS, weights=_STATIC, operators=_DEFAULT[:3], drafts=0, parents="root"),
        (CHEAP,),
    ),
    "gradient": (CodeOptions(policy=Policy.GRADIENT), (CHEAP,)),
    "credit, mutate": (CodeOptions(operators=(*_DEFAULT, Operator.MUTATE)), (CHEAP,)),
    "credit, restart": (CodeOptions(parents="restart"), (CHEAP,)),
    "credit, two models": (CodeOptions(), _TWO),
    "static, two models": (CodeOptions(policy=Policy.WEIGHTS, weights=_STATIC), _TWO),
    "credit, top": (CodeOptions(parents="top"), (CHEAP,)),
    "credit, uct": (CodeOptions(parents="uct"), (CHEAP,)),
    "credit, islands": (CodeOptions(parents="islands"), (CHEAP,)),
    "credit, softmax": (CodeOptions(parents="softmax"), (CHEAP,)),
    "credit, epsilon": (CodeOptions(parents="epsilon"), (CHEAP,)),
    "credit, novelty": (CodeOptions(parents="novelty"), (CHEAP,)),
    "credit, map-elites": (
        CodeOptions(parents={"kind": "map-elites", "columns": {"paradigm": 1.0, "first": 1.0}}),
        (CHEAP,),
    ),
}


def seeds_of(mature: bool, count: int) -> list[int]:
    """The first seeds whose random shape has a fresh, or a mature, root."""
    found = (seed for seed in range(FIRST_SEED, FIRST_SEED + 100 * count) if random_shape(seed).mature is mature)
    return [next(found) for _ in range(count)]


def run_one(job: tuple[str, int]) -> tuple[str, list[float]]:
    name, seed = job
    options, skills = POLICIES[name]
    result = Simulation(make_landscape("random", seed), options, seed, skills).run(BUDGET)
    return f"{name}|{seed}", [
        round(result.area, 6),
        round(result.final, 6),
        result.trials,
        round(result.broken, 4),
    ]


def main(count: int, workers: int, chosen: Sequence[str]) -> None:
    known: dict[str, list[float]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    strata = {"fresh": seeds_of(False, count), "mature": seeds_of(True, count)}
    jobs = [
        (name, seed)
        for pair in zip(*strata.values(), strict=True)
        for seed in pair
        for name in chosen
        if f"{name}|{seed}" not in known
    ]
    with multiprocessing.Pool(workers) as pool:
        for done, (key, result) in enumerate(pool.imap(run_one, jobs, chunksize=2), start=1):
            known[key] = result
            if done % 20 == 0 or done == len(jobs):
                RESULTS.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")
    write_page(PAGE, known, strata, list(POLICIES), BUDGET)


if __name__ == "__main__":
    seeds, workers, names = (*sys.argv[1:], *("40", "2", ",".join(POLICIES))[len(sys.argv) - 1 :])
    main(int(seeds), int(workers), names.split(","))
