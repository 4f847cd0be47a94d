"""The product with tune mode beside other tools: on the same wire and shapes, at the same cost of evaluations.

    .venv/bin/python benchmarks/search_tools_tuned.py

It runs what is missing in `search_tools_tuned_results.json`, then prints the table. Here the
benchmark has a slice of 3 %, which other tools have no use for, and the model declares the constants of the blocks
that it wrote, where the prompt offers it. Each tune trial costs 0.03 of an evaluation, and whoever has spent 60
evaluations is cut off. Shapes, peers and their results are those of `search_tools.py`. All figures were fixed
before the first run: those of tune mode are those of `search_declared_wire.py`, and there is one arm.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from page_tables import difference_text
from search_declared_wire import DECLARED_OPTIONS, DeclaringModel, evaluate_declared
from search_landscape import Landscape
from search_product import run_loopty
from search_program import make_task
from search_tools import EVALUATIONS, LOOPTY, PEERS, SHAPES, seeds_of
from search_tools import RESULTS as OTHERS
from search_wire import serve

from loopty.engine.protocols import Trial

RESULTS = Path(__file__).with_name("search_tools_tuned_results.json")
_SHAPES = 40
"""Of each kind."""
_SLICE = 0.03
_ATTEMPTS = 52
"""More than 60 evaluations pay for, where three proposals of four are tuned."""
_HEAD = (
    "| beside | shapes | its median area | tune mode's | tune mode's area over it |",
    "|---|---|---|---|---|",
)


def run_one(seed: int) -> dict[str, float | int]:
    land, slices = make_task(seed), [0]
    spent: list[float] = []

    def evaluate(text: str, land: Landscape, trial: Trial) -> float:
        if trial.slice:
            slices[0] += 1
        elif trial.node.id.parent:
            spent.append(len(spent) + 1 + _SLICE * slices[0])
        return evaluate_declared(text, land, trial)

    with serve(DeclaringModel(land, seed)) as url:
        scores = run_loopty(land, seed, _ATTEMPTS, url, DECLARED_OPTIONS, evaluate)
    best = [
        max((score for score, cost in zip(scores, spent, strict=True) if cost <= evaluation), default=0.0)
        for evaluation in range(1, EVALUATIONS + 1)
    ]
    best = [max(value, 0.0) for value in best]
    return {
        "area": round(statistics.fmean(best), 4),
        "final": round(best[-1], 4),
        "attempts": sum(cost <= EVALUATIONS for cost in spent),
        "spent": round(spent[-1], 2),
        "slices": slices[0],
    }


def main() -> None:
    known: dict[str, dict[str, float | int]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    strata = {stratum: seeds_of(stratum)[:_SHAPES] for stratum in SHAPES}
    for seed in (seed for pair in zip(*strata.values(), strict=True) for seed in pair):
        if str(seed) not in known:
            known[str(seed)] = run_one(seed)
            print(seed, known[str(seed)], file=sys.stderr, flush=True)
            lines = (f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known))
            RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    others = json.loads(OTHERS.read_text())
    lines: list[str] = []
    for stratum, seeds in strata.items():
        rows = [_row(tool, known, others, seeds) for tool in (*LOOPTY, *PEERS)]
        lines += [f"**{stratum.capitalize()} roots**, the cost of 60 evaluations each:", "", *_HEAD, *rows, ""]
    print("\n".join(lines))


def _row(
    tool: str,
    tuned: Mapping[str, Mapping[str, float]],
    others: Mapping[str, Mapping[str, float]],
    seeds: Sequence[int],
) -> str:
    own = [tuned[str(seed)]["area"] for seed in seeds]
    theirs = [others[f"{tool}|{seed}"]["area"] for seed in seeds]
    medians = (f"{statistics.median(theirs):.3f}", f"{statistics.median(own):.3f}")
    return f"| {' | '.join((tool, str(len(seeds)), *medians, difference_text(own, theirs)))} |"


if __name__ == "__main__":
    main()
