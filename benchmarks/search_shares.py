"""Shares of the evolver and the user role that move, beside fixed ones, in a simulation.

    .venv/bin/python benchmarks/search_shares.py [SHAPES]

The evolver, the episodes and the judge are those of `search_roles.py`, with episodes in pairs for what may win. A
search ends when a role has spent its share: the evolver can propose nothing more, or no episode can be paid. The
moves are the shipped rule, which decides every few nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from search_landscape import random_shape
from search_roles import BUDGET, FIRST_SEED, HEAD, Candidate, RolePolicy, RoleSimulation, row_text

from loopty.domain.model import Roles
from loopty.domain.objective import Objective
from loopty.domain.trial import Pool
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.purse import next_shares
from loopty.record.calls import RoleShares
from loopty.record.fold import Recorded
from loopty.record.nodes import Proposals
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialCounts
from loopty.record.verdicts import Incumbents


@dataclass(frozen=True)
class SharePolicy:
    """How the budget is divided; without shares it is one pot."""

    shares: Mapping[str, float]
    moves: bool = False


class ShareSimulation(RoleSimulation):
    """A search in which each role has its share of the budget."""

    def __init__(self, seed: int, policy: SharePolicy) -> None:
        self._by_user = 0.0
        self._nodes = self._failed = self._since_best = self._pairs = self._kept = 0
        self._division = policy
        self._shares = policy.shares
        history = MemoryLedger().history()
        history.apply(Recorded(1, 1.0, RunStarted(1, "c", Objective(), 0, "simulated")))
        self._run = history.runs[1]
        super().__init__(seed, RolePolicy(4, races=True), 0.0)

    @property
    def is_over(self) -> bool:
        by_role = {"evolver": self._spent - self._by_user, "user": self._by_user}
        return self._spent >= BUDGET or any(
            spent >= self._shares[role] * BUDGET for role, spent in by_role.items() if role in self._shares
        )

    def _measure(self, candidate: Candidate) -> None:
        before = self._spent
        super()._measure(candidate)
        self._by_user += self._spent - before

    def _fail(self) -> None:
        before = self._spent
        super()._fail()
        self._by_user += self._spent - before
        self._nodes += 1
        self._failed += 1
        self._since_best += 1

    def _wins(self, candidate: Candidate) -> bool:
        before = self._by_user
        wins = super()._wins(candidate)
        is_paired = self._by_user > before
        self._pairs += is_paired
        self._kept += is_paired and wins
        self._nodes += 1
        self._since_best = 0 if wins else self._since_best + 1
        return wins

    def _step(self) -> None:
        super()._step()
        if self._division.moves:
            self._move()

    def _move(self) -> None:
        run = self._run.with_pool_part(Pool.ATTEMPT, Proposals(nodes=self._nodes))
        incumbents = Incumbents(since_best=self._since_best, compared=self._pairs, kept=self._kept)
        run = run.with_pool_part(Pool.ATTEMPT, incumbents)
        run = run.with_pool_part(Pool.ATTEMPT, TrialCounts(endings={"failed": self._failed}))
        if decision := next_shares(run, Roles(shares=self._division.shares, allocation="adaptive")):
            self._shares = decision.shares
            part = RoleShares(decision.shares, decision.figures, decision.reason)
            self._run = run.with_part(part)


_EVEN, _USER = {"evolver": 0.5, "user": 0.5}, {"evolver": 0.25, "user": 0.75}
POLICIES = {
    "one pot": SharePolicy({}),
    "halves": SharePolicy(_EVEN),
    "halves that move": SharePolicy(_EVEN, moves=True),
    "a quarter for the evolver": SharePolicy(_USER),
    "a quarter that moves": SharePolicy(_USER, moves=True),
}


def main(count: int) -> None:
    lines: list[str] = []
    for mature in (False, True):
        found = range(FIRST_SEED, FIRST_SEED + 100 * count)
        seeds = [seed for seed in found if random_shape(seed).mature is mature][:count]
        results = {
            name: [ShareSimulation(seed, policy).run() for seed in seeds] for name, policy in POLICIES.items()
        }
        rows = [row_text(name, results[name], results["one pot"]) for name in POLICIES]
        lines += [f"**Shares**, {'mature' if mature else 'fresh'} roots, {count} shapes:", "", *HEAD, *rows, ""]
    print("\n".join(lines))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
