"""Compare loopty's samplers with plain Optuna, seed by seed.

python benchmarks/samplers.py [--seeds N] [--trials N] [--sampler NAME] [--space NAME] [--skip-cost]
"""

import argparse
import os

# Small matrices gain nothing from threads, and on a shared machine they wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from sampler_clock import AskClock, median_costs
from sampler_problems import Problem, problems
from sampler_searches import SAMPLERS, search_with_loopty, search_with_optuna

_RESAMPLES = 10_000
_LEVEL = 0.95
_COST_TRIALS = 1000
_COST_SAMPLERS = ("tpe", "cmaes")
_COST_LIMIT = 1.2


@dataclass(frozen=True)
class Pair:
    """One search by each, with the same seed and the same number of measurements."""

    problem: str
    sampler: str
    pruned: bool
    seed: int
    trials: int


def main() -> None:
    options = _options()
    samplers = options.sampler or [sampler for sampler in SAMPLERS if sampler != "gp" or find_spec("torch")]
    print(f"{options.seeds} seeds, {options.trials} trials; smaller is better\n")
    _show_table(_comparison(samplers, options))
    if not options.skip_cost:
        print(f"\nCPU of a question after {_COST_TRIALS:,} trials of rosenbrock-5\n")
        _show_table(_costs([sampler for sampler in samplers if sampler in _COST_SAMPLERS]))


def _comparison(samplers: Sequence[str], options: argparse.Namespace) -> Iterator[Sequence[str]]:
    yield "sampler", "space", "pruner", "loopty", "Optuna", "difference (95 % interval)", "behind"
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for sampler in samplers:
            for problem in problems():
                if problem.name not in (options.space or [problem.name]):
                    continue
                if sampler == "grid" and problem.name == "conditional":
                    continue  # Optuna's grid has no conditional parameters
                for pruned in (False, True):
                    pairs = [Pair(problem.name, sampler, pruned, seed, options.trials) for seed in seeds]
                    yield _comparison_row(problem, pairs[0], pool.map(_search_both, pairs))


def _search_both(pair: Pair) -> tuple[float, float]:
    """The best values of loopty and of Optuna."""
    problem = next(problem for problem in problems() if problem.name == pair.problem)
    what = problem, pair.sampler, pair.seed, pair.trials, pair.pruned
    return search_with_loopty(*what), search_with_optuna(*what)


def _comparison_row(problem: Problem, pair: Pair, results: Sequence[tuple[float, float]]) -> Sequence[str]:
    ours, theirs = zip(*results, strict=True)
    differences = [problem.regret(one) - problem.regret(other) for one, other in results]
    low, high = _interval(differences)
    verdict = "YES" if low > 0 else "ahead" if high < 0 else "no"
    return (
        pair.sampler,
        problem.name,
        "median" if pair.pruned else "none",
        f"{statistics.median(ours):.4g}",
        f"{statistics.median(theirs):.4g}",
        f"{statistics.fmean(differences):+.2f} ({low:+.2f} to {high:+.2f})",
        verdict,
    )


def _interval(differences: Sequence[float]) -> tuple[float, float]:
    """The bootstrap interval of the mean."""
    rng, count = random.Random(0), len(differences)
    means = sorted(statistics.fmean(rng.choices(differences, k=count)) for _ in range(_RESAMPLES))
    tail = round(_RESAMPLES * (1 - _LEVEL) / 2)
    return means[tail], means[-tail - 1]


def _costs(samplers: Sequence[str]) -> Iterator[Sequence[str]]:
    yield "sampler", "loopty", "Optuna", "ratio", "target", "met"
    problem = next(problem for problem in problems() if problem.name == "rosenbrock-5")
    for sampler in samplers:

        def search_ours(clock: AskClock, sampler: str = sampler) -> float:
            return search_with_loopty(problem, sampler, 0, _COST_TRIALS, pruned=False, clock=clock)

        def search_theirs(clock: AskClock, sampler: str = sampler) -> float:
            return search_with_optuna(problem, sampler, 0, _COST_TRIALS, pruned=False, clock=clock)

        ours, theirs = median_costs([search_ours, search_theirs])
        met = "yes" if ours <= _COST_LIMIT * theirs else "NO"
        target = f"at most {_COST_LIMIT:g}"
        yield sampler, f"{ours * 1000:.2f} ms", f"{theirs * 1000:.2f} ms", f"{ours / theirs:.2f}", target, met


def _show_table(rows: Iterator[Sequence[str]]) -> None:
    started = time.monotonic()
    for number, cells in enumerate(rows):
        print(f"| {' | '.join(cells)} |", flush=True)
        if number == 0:
            print("|---" * len(cells) + "|")
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare loopty's samplers with plain Optuna, seed by seed.")
    parser.add_argument(
        "--seeds", type=int, default=24, metavar="N", help="searches by each; at least 20 say much"
    )
    parser.add_argument("--trials", type=int, default=80, metavar="N", help="attempts of each search")
    parser.add_argument("--sampler", action="append", choices=SAMPLERS, help="only this one; may be repeated")
    spaces = [problem.name for problem in problems()]
    parser.add_argument("--space", action="append", choices=spaces, help="only this one; may be repeated")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N")
    parser.add_argument("--skip-cost", action="store_true", help="do not measure the CPU of questions")
    return parser.parse_args()


if __name__ == "__main__":
    main()
