"""Which search policies earn their place: the shipped policy against controls, on simulated landscapes.

    .venv/bin/python benchmarks/search.py [SEEDS] [WORKERS] [POLICY+POLICY…] [SETTING+SETTING…]

It runs what is missing in `search_results.json`, then writes two settings into docs/research/search.md.

A policy is a set of options of `llm-code`; the shipped plan, selectors and fold decide (`search_simulation.py`).
Fresh and mature starts are never pooled. The seeds from 200,000 on were looked at once, with all constants frozen.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from search_coder import CHEAP, STRONG, Skill
from search_landscape import make_landscape, random_shape
from search_page import PageTable, write_page
from search_simulation import Simulation

from loopty.proposers.code.options import CodeOptions, Operator

RESULTS = Path(__file__).with_name("search_results.json")
SHOWN = ("calls", "parts")
"""The settings on the page; the others support a sentence of it."""


@dataclass(frozen=True)
class Setting:
    """What the budget counts, and on which shapes. The policies believe that a trial costs a call."""

    title: str
    trial_cost: float
    call_cost: float
    budget: float
    first_seed: int = 200_000

    def seeds(self, mature: bool, count: int) -> list[int]:
        """The first seeds whose random shape has a fresh, or a mature, root."""
        found = range(self.first_seed, self.first_seed + 100 * count)
        return [seed for seed in found if random_shape(seed).mature is mature][:count]


SETTINGS = {
    "calls": Setting("all policies, a trial costs as much as a call, 300 calls", 1.0, 1.0, 300.0, 50_000),
    "confirm": Setting("three of them confirmed on other shapes, the same costs", 1.0, 1.0, 300.0),
    "dear": Setting("a trial costs as much as five calls, 800 calls", 5.0, 1.0, 800.0),
    "attempts": Setting("calls cost nothing, 120 trials", 1.0, 0.0, 120.0),
    "few": Setting("calls cost nothing, 60 trials, with fewer drafts", 1.0, 0.0, 60.0, 400_000),
    "few-confirm": Setting("the same, confirmed on other shapes", 1.0, 0.0, 60.0, 500_000),
    "gepa": Setting("calls cost nothing, 60 trials, beside what GEPA does on the wire", 1.0, 0.0, 60.0, 700_000),
    "parts": Setting("calls cost nothing, 60 trials, with parts of changes", 1.0, 0.0, 60.0, 1_300_000),
    "parts-calls": Setting(
        "with parts of changes, a trial costs as much as a call, 300 calls", 1.0, 1.0, 300.0, 1_400_000
    ),
}

_OLD = (Operator.DIFF, Operator.REWRITE, Operator.CROSSOVER, Operator.FIX)
_DEFAULT = CodeOptions().operators
_STATIC = {"diff": 0.6, "rewrite": 0.25, "fix": 0.15}
_TWO = (CHEAP, STRONG)

Entry = tuple[CodeOptions, tuple[Skill, ...]]

POLICIES: dict[str, Entry] = {
    "static": (CodeOptions(weights=_STATIC), (CHEAP,)),
    "credit": (CodeOptions(), (CHEAP,)),
    "uniform": (CodeOptions(weights=dict.fromkeys(_OLD, 1.0), operators=_OLD, drafts=0), (CHEAP,)),
    "best-of-N": (CodeOptions(weights={"draft": 1.0}, operators=(Operator.DRAFT,), drafts=0), (CHEAP,)),
    "root": (
        CodeOptions(weights=_STATIC, operators=_DEFAULT[:3], drafts=0, parents="root"),
        (CHEAP,),
    ),
    "credit, mutate": (CodeOptions(operators=(*_DEFAULT, Operator.MUTATE)), (CHEAP,)),
    "credit, restart": (CodeOptions(parents="restart"), (CHEAP,)),
    "credit, two models": (CodeOptions(), _TWO),
    "static, two models": (CodeOptions(weights=_STATIC), _TWO),
    "credit, no drafts": (CodeOptions(operators=_DEFAULT[:3], drafts=0), (CHEAP,)),
    "credit, no drafts, no fixes": (CodeOptions(operators=_DEFAULT[:2], drafts=0), (CHEAP,)),
    "credit, one draft first": (CodeOptions(drafts=1), (CHEAP,)),
    "credit, no draft first": (CodeOptions(drafts=0), (CHEAP,)),
    "greedy diffs and rewrites": (
        CodeOptions(weights={"diff": 0.7, "rewrite": 0.3}, operators=_DEFAULT[:2], drafts=0),
        (CHEAP,),
    ),
    "credit, islands": (CodeOptions(parents="islands"), (CHEAP,)),
    "credit, map-elites": (
        CodeOptions(parents={"kind": "map-elites", "columns": {"paradigm": 1.0, "first": 1.0}}),
        (CHEAP,),
    ),
}

TAKEN_OUT = tuple(f"credit, {name}" for name in ("parts", "top", "uct", "softmax", "epsilon", "novelty"))
"""Measured, then taken out of loopty: the page keeps their recorded rows."""


def run_one(job: tuple[str, str, int]) -> tuple[str, list[float]]:
    about, name, seed = job
    (options, skills), setting = POLICIES[name], SETTINGS[about]
    landscape = make_landscape("random", seed)
    simulation = Simulation(landscape, options, seed, skills, setting.trial_cost, setting.call_cost)
    result = simulation.run(setting.budget)
    return f"{about}|{name}|{seed}", [
        round(result.area, 4),
        round(result.final, 4),
        result.trials,
        round(result.broken, 3),
    ]


def main(count: int, workers: int, chosen: Sequence[str], settings: Sequence[str]) -> None:
    known: dict[str, list[float]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    jobs = [
        (about, name, seed)
        for about in settings
        for pair in zip(SETTINGS[about].seeds(False, count), SETTINGS[about].seeds(True, count), strict=True)
        for seed in pair
        for name in chosen
        if f"{about}|{name}|{seed}" not in known
    ]
    with multiprocessing.Pool(workers) as pool:
        for done, (key, result) in enumerate(pool.imap(run_one, jobs, chunksize=4), start=1):
            known[key] = result
            if done % 200 == 0 or done == len(jobs):
                RESULTS.write_text(_json(known))
    tables = [
        PageTable(about, title, setting.title, setting.seeds(title == "Mature", count))
        for about, setting in ((about, SETTINGS[about]) for about in SHOWN)
        for title in ("Fresh", "Mature")
    ]
    write_page(known, tables, [*POLICIES, *TAKEN_OUT])


def _json(known: dict[str, list[float]]) -> str:
    """One result on a line."""
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {known[key]}" for key in sorted(known)) + "\n}\n"


if __name__ == "__main__":
    seeds, workers, names, about = (*sys.argv[1:], *("40", "2", "+".join(POLICIES), "calls")[len(sys.argv) - 1 :])
    main(int(seeds), int(workers), names.split("+"), about.split("+"))
