"""How many equal results a benchmark without noise needs, where some candidates toss coins.

python benchmarks/judge_equal_results.py [--runs N]

A tosser is 5 % better or worse, by a coin in each measurement, and passes that on to what is built on it.
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_TOSS = 0.05
_BY_PAIRS = 2
"""Measurements of the incumbent beside a candidate that varies."""

Needed = Callable[[int, bool], int]
"""Equal results that a candidate needs, after so many keeps that never varied, and whether one ever did."""


def _by_share_of_tossers(steady: int, _varied: bool) -> int:
    return max(math.ceil(math.log2(min(1.0, 3 / steady if steady else 1.0) / 0.05)), 2)


@dataclass(frozen=True)
class Rule:
    needed: Needed
    checks: bool = True
    """Whether the winner is measured five times, and an incumbent that varies can lose its place."""


RULES = {
    "five": Rule(lambda _steady, _varied: 5, checks=False),
    "five, fewer by the share of tossers": Rule(_by_share_of_tossers, checks=False),
    "one after three keeps": Rule(lambda steady, varied: 1 if steady >= 3 and not varied else 2),
    "two": Rule(lambda _steady, _varied: 2),
    "two, five once one varied": Rule(lambda _steady, varied: 5 if varied else 2),
    "three, then two, five once one varied": Rule(lambda steady, varied: 5 if varied else 3 if steady < 3 else 2),
}


@dataclass
class Kept:
    level: float
    record: float
    tosses: bool
    results: int

    def measure(self, rng: random.Random) -> float:
        return self.level * (1 + _TOSS * rng.choice((-1, 1)) * self.tosses)


def run(rule: Rule, tossers: float, trials: int, seed: int) -> Kept:
    """A run of so many trials; its winner."""
    rng, spent, steady, varied = random.Random(seed), 3, 0, False
    chain = [Kept(100.0, 100.0, False, 5)]
    while spent < trials:
        best, kind = chain[-1], rng.random()
        gain = rng.expovariate(100) if kind < 0.125 else 0.0 if kind < 0.5 else -rng.expovariate(50)
        candidate = Kept(best.level * (1 + gain), 0.0, best.tosses or rng.random() < tossers, 1)
        candidate.record, spent = candidate.measure(rng), spent + 1
        if candidate.record <= best.record:
            continue
        needed = rule.needed(steady, varied)
        while candidate.results < needed and candidate.measure(rng) == candidate.record:
            candidate.results += 1
        spent += min(candidate.results, needed - 1)
        if candidate.results < needed:
            varied, steady, spent = True, 0, spent + _BY_PAIRS
            if rule.checks and len(chain) > 1 and best.measure(rng) <= chain[-2].record:
                chain.pop()
            continue
        steady += needed > 1
        chain.append(candidate)
    while rule.checks and len(chain) > 1 and not _holds(chain[-1], chain[-2].record, rng):
        chain.pop()
    return chain[-1]


def _holds(winner: Kept, beaten: float, rng: random.Random) -> bool:
    return all(winner.measure(rng) > beaten for _ in range(5 - winner.results))


def rows(runs: int) -> Iterator[Sequence[str]]:
    yield ("equal results", *(f"{what}, {100 * share:g} % toss" for share in (0, 0.05, 0.3) for what in _COLUMNS))
    for name, rule in RULES.items():
        cells = [name]
        for share in (0.0, 0.05, 0.3):
            found = [run(rule, share, 90, seed) for seed in range(runs)]
            cells.append(f"{statistics.fmean(one.level for one in found) - 100:.1f} %")
            cells.append(f"{100 * statistics.fmean(one.tosses for one in found):.0f} %")
        yield cells


_COLUMNS = ("gain", "random winners")


def main() -> None:
    parser = argparse.ArgumentParser(description="How many equal results a benchmark without noise needs.")
    parser.add_argument("--runs", type=int, default=2000, metavar="N")
    for number, cells in enumerate(rows(parser.parse_args().runs)):
        print(f"| {' | '.join(cells)} |")
        if number == 0:
            print("|---" * len(cells) + "|")


if __name__ == "__main__":
    main()
