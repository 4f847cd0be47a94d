"""Tokens across roles: how many episodes a candidate gets, and how much the verifier reads, in a simulation.

    .venv/bin/python benchmarks/search_roles.py [SHAPES]

An evolver writes, the user role is measured in episodes of high variance, a verifier looks for cheats, which score
better than they are and pass that on to their descendants. Pairs are judged by the shipped judge, and the share of
proposals that is screened is the shipped rule. A call costs 1, an episode 0.25, a look of the verifier 1.5. The
figures are shares of the way to the optimum, of the true score of the node that is kept as the best.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import sys
from dataclasses import dataclass, field

from page_tables import difference_text
from search_coder import CHEAP, Coder
from search_landscape import Genome, make_landscape, random_shape

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.task import Noise
from loopty.domain.trial import Verdict
from loopty.judge.pairs import MeasureAgain, Rules, judge_pairs
from loopty.kit.records import replace
from loopty.record.node_record import Pairing
from loopty.record.verdicts import NodeJudged

FIRST_SEED = 400_000
BUDGET = 600.0
_EPISODE, _LOOK, _DEVIATION = 0.25, 1.5, 0.25
_SEES, _FALSE_ALARM = 0.8, 0.05
_BEST, _OTHER = NodeId("1"), NodeId("1.1")
_OPERATORS = (("diff", 0.6), ("rewrite", 0.25), ("draft", 0.15))


@dataclass(frozen=True)
class RolePolicy:
    """How tokens are spent besides the evolver's."""

    episodes: int
    races: bool = False
    """Few episodes first, and pairs only with what may win; else one measurement decides."""
    reviews: bool = False
    """The verifier looks at every winner."""
    screens: str = "none"
    """Which proposals it reads before their trial: `none`, `all`, or `adaptive`."""


@dataclass
class Candidate:
    genome: Genome
    true: float
    bonus: float = 0.0
    samples: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.samples)


class RoleSimulation:
    def __init__(self, seed: int, policy: RolePolicy, cheats: float) -> None:
        self._land = make_landscape("random", seed)
        self._coder = Coder(CHEAP, self._land)
        self._rng = random.Random(seed * 31 + 7)
        self._policy, self._cheats = policy, cheats
        self._spent, self._looks, self._objections = 0.0, 0, 0
        self._best = Candidate(self._land.root, 0.0)
        self._measure(self._best)

    def run(self) -> tuple[float, float]:
        """The area under the true score of the best node, and the last one."""
        area = 0.0
        while not self.is_over:
            since, value = self._spent, self._best.true
            self._step()
            area += value * (min(self._spent, BUDGET) - since)
        area += self._best.true * max(BUDGET - self._spent, 0.0)
        return area / BUDGET, self._best.true

    @property
    def is_over(self) -> bool:
        return self._spent >= BUDGET

    def _step(self) -> None:
        rng = self._rng
        operator = rng.choices([name for name, _ in _OPERATORS], [weight for _, weight in _OPERATORS])[0]
        self._spent += self._coder.cost(operator)
        genome = self._coder.change(operator, self._best.genome, None, rng)
        if genome is None or genome == self._best.genome:
            return
        inherited = 0.0 if operator == "draft" else self._best.bonus
        is_cheat = rng.random() < self._cheats
        candidate = Candidate(genome, self._land.score(genome)[0], inherited + is_cheat * rng.uniform(0.1, 0.3))
        if self._is_screened() and self._objects(candidate):
            return
        if self._coder.breaks(operator, rng):
            self._fail()
            return
        self._measure(candidate)
        if self._wins(candidate) and not (self._policy.reviews and self._objects(candidate)):
            self._best = candidate

    def _fail(self) -> None:
        """A trial that breaks ends in its first episode."""
        self._spent += _EPISODE

    def _is_screened(self) -> bool:
        if self._policy.screens != "adaptive":
            return self._policy.screens == "all"
        return self._rng.random() < max(0.1, (1 + 4 * self._objections) / (2 + self._looks))

    def _objects(self, candidate: Candidate) -> bool:
        self._spent += _LOOK
        self._looks += 1
        objects = self._rng.random() < (_SEES if candidate.bonus > self._best.bonus else _FALSE_ALARM)
        self._objections += objects
        return objects

    def _measure(self, candidate: Candidate) -> None:
        count = self._policy.episodes
        self._spent += _EPISODE * count
        noise = self._rng.gauss(0, _DEVIATION / count**0.5)
        candidate.samples.append(candidate.true + candidate.bonus + noise)

    def _wins(self, candidate: Candidate) -> bool:
        if not self._policy.races:
            error = _DEVIATION * (2 / self._policy.episodes) ** 0.5
            return candidate.mean > self._best.mean + error
        if candidate.mean <= self._best.mean:
            return False
        rules = Rules((Metric("score"),), Noise(), affordable=True, secret=f"{self._spent}")
        pairing = Pairing(_BEST, {"score": _DEVIATION / self._policy.episodes**0.5})
        while True:
            ruling = judge_pairs(_OTHER, pairing, rules)
            if isinstance(ruling, NodeJudged):
                return ruling.verdict is Verdict.KEPT
            pairing = self._with_measurement(pairing, ruling, candidate)

    def _with_measurement(self, pairing: Pairing, ruling: MeasureAgain, candidate: Candidate) -> Pairing:
        measured = candidate if ruling.node == _OTHER else self._best
        self._measure(measured)
        sample = ({"score": measured.samples[-1]},)
        if measured is candidate:
            return replace(pairing, mine=(*pairing.mine, *sample))
        return replace(pairing, theirs=(*pairing.theirs, *sample))


HEAD = ("| policy | area | final | area over the first | final over the first |", "|---|---|---|---|---|")
_RACE = RolePolicy(4, races=True)
TABLES = {
    "Episodes, no cheats": (
        0.0,
        {
            "16 episodes each": RolePolicy(16),
            "4 episodes each": RolePolicy(4),
            "64 episodes each": RolePolicy(64),
            "4 episodes, more in pairs for what may win": _RACE,
        },
    ),
    "The verifier, one proposal in ten cheats": (
        0.1,
        {
            "no verifier": _RACE,
            "reviews of winners": RolePolicy(4, True, reviews=True),
            "reviews, and reads all proposals": RolePolicy(4, True, True, "all"),
            "reviews, and reads an adaptive share": RolePolicy(4, True, True, "adaptive"),
        },
    ),
    "The verifier, no cheats": (
        0.0,
        {
            "no verifier": _RACE,
            "reviews of winners": RolePolicy(4, True, reviews=True),
            "reviews, and reads all proposals": RolePolicy(4, True, True, "all"),
            "reviews, and reads an adaptive share": RolePolicy(4, True, True, "adaptive"),
        },
    ),
}
"""The first policy of a table is the one that the others are compared with."""


def main(count: int) -> None:
    jobs = [(title, mature, count) for title in TABLES for mature in (False, True)]
    with multiprocessing.Pool(3) as pool:
        tables = pool.starmap(_table, jobs, chunksize=1)
    print("\n".join(line for table in tables for line in table))


def _table(title: str, mature: bool, count: int) -> list[str]:
    """The policies of a table on shapes with fresh or mature roots."""
    cheats, policies = TABLES[title]
    found = range(FIRST_SEED, FIRST_SEED + 100 * count)
    seeds = [seed for seed in found if random_shape(seed).mature is mature][:count]
    results = {
        name: [RoleSimulation(seed, policy, cheats).run() for seed in seeds] for name, policy in policies.items()
    }
    rows = [row_text(name, results[name], next(iter(results.values()))) for name in policies]
    return [f"**{title}**, {'mature' if mature else 'fresh'} roots, {count} shapes:", "", *HEAD, *rows, ""]


def row_text(name: str, own: list[tuple[float, float]], base: list[tuple[float, float]]) -> str:
    means = [f"{statistics.fmean(one[column] for one in own):.3f}" for column in (0, 1)]
    over = [
        "" if own is base else difference_text([one[column] for one in own], [one[column] for one in base])
        for column in (0, 1)
    ]
    return f"| {' | '.join((name, *means, *over))} |"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
