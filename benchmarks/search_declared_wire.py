"""Declared parameters in the product: `loopty run` against a simulated model over HTTP that declares them.

    .venv/bin/python benchmarks/search_declared_wire.py [SHAPES]

It runs what is missing in `search_declared_wire_results.json`, then prints the table. The
model declares the constants of blocks that are not the first program's, as far as twelve lines go; ranges hold the
optimum. It sees the program's text alone, not the values that were promoted. 16 tune trials on a slice of 3 %
make an attempt 1.48 times as dear, so that arm has 40 attempts where the other has 60. Nothing was chosen by these
seeds.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from page_tables import difference_table
from search_landscape import CONSTANTS, GRID, Genome, Landscape, make_landscape
from search_product import run_loopty
from search_program import ProgramError, evaluate, programs
from search_wire import SimulatedModel, serve

from loopty.engine.protocols import Trial

RESULTS = Path(__file__).with_name("search_declared_wire_results.json")
FIRST_SEED = 620_000
OFF, ON = "no tune mode", "declared"
ATTEMPTS = {OFF: 60, ON: 40}
_NOISE = 0.01
_MOST_LINES = 12
_OPTIONS = "operators = ['diff', 'rewrite', 'fix', 'draft']\nform = 'whole'\n"
DECLARED_OPTIONS = _OPTIONS + '[tune]\nslice = "dev"\ntrials = 16\n'
_END = "# EVOLVE-BLOCK-END"
STRATA = {"conditional": "fresh", "conditional+": "mature"}


class DeclaringModel(SimulatedModel):
    """Where the prompt offers it, the model declares the constants of the blocks that it wrote."""

    def reply(self, prompt: str) -> str:
        text = super().reply(prompt)
        if "you may leave them open" not in prompt or _END not in text:
            return text
        ((_, genome),) = programs(text, self._land.shape.blocks)
        return text.replace(_END, "\n".join([*_declarations(genome, self._land.root), _END]))


def _declarations(genome: Genome, first: Genome) -> list[str]:
    lines = [
        f'# loopty parameter: {name} = {{ type = "int", low = 0, high = {GRID}, default = {genome.constants[i]} }}'
        for i, name in enumerate(_names(genome))
        if name not in _names(first)
    ]
    return lines[:_MOST_LINES]


def _names(genome: Genome) -> list[str]:
    """One name for each constant; a block of another kind has others."""
    return [
        f"b{block}_{genome.paradigm}_{choice}_{place}"
        for block, choice in enumerate(genome.blocks)
        for place in range(CONSTANTS)
    ]


def evaluate_declared(text: str, land: Landscape, trial: Trial) -> float:
    """The score with the trial's values; on the slice with a little noise."""
    evaluate(text, land)  # whether it runs at all
    ((_, genome),) = programs(text, land.shape.blocks)
    values = [trial.node.params.get(name, genome.constants[i]) for i, name in enumerate(_names(genome))]
    if any(not isinstance(value, int) for value in values):
        raise ProgramError("a value is no whole number")
    score = land.score(genome._replace(constants=tuple(values)))[0]
    rng = random.Random(f"{text} {sorted(trial.node.params.items())}")
    return score + (rng.gauss(0, _NOISE) if trial.slice else 0.0)


def run_one(shape: str, arm: str, seed: int) -> list[float]:
    land = make_landscape(shape, seed)
    with serve(DeclaringModel(land, seed)) as url:
        options = DECLARED_OPTIONS if arm == ON else _OPTIONS
        scores = run_loopty(land, seed, ATTEMPTS[arm], url, options, evaluate_declared)
    best, reached = 0.0, []
    for score in scores[: ATTEMPTS[arm]]:
        best = max(best, score)
        reached.append(best)
    reached += [best] * (ATTEMPTS[arm] - len(reached))
    return [round(sum(reached) / len(reached), 4), round(best, 4), len(scores)]


def main(count: int) -> None:
    known: dict[str, list[float]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    for seed in seeds:
        for shape in STRATA:
            for arm in ATTEMPTS:
                if (key := f"{shape}|{arm}|{seed}") not in known:
                    known[key] = run_one(shape, arm, seed)
                    print(key, known[key], file=sys.stderr, flush=True)
                    lines = (f"{json.dumps(name)}: {known[name]}" for name in sorted(known))
                    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    strata = {
        title: [lambda arm, shape=shape, seed=seed: f"{shape}|{arm}|{seed}" for seed in seeds]
        for shape, title in STRATA.items()
    }
    table = difference_table(known, "parameters", [ON], strata, OFF)
    head = "Over HTTP, 40 attempts with 16 tune trials each on a slice of 3 % against 60 attempts without:"
    print("\n".join([head, "", *table]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
