"""A simulated language model that changes programs: habits, sense, breakage, refusals and a price."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from search_landscape import CONSTANTS, GRID, Genome, Landscape

from loopty.kit.records import replace

TOKENS = {"diff": 1.0, "rewrite": 1.7, "crossover": 2.0, "fix": 1.2, "draft": 1.5, "mutate": 0.0}
"""Tokens of a call, relative to a diff's."""


@dataclass(frozen=True)
class Skill:
    """What a model is like. `sense`: how much its habits agree with what is good."""

    name: str
    price: float = 1.0
    sense: float = 0.3
    habit: float = 1.2
    """How concentrated its choices are: high repeats itself."""
    direction: float = 0.55
    """How often a tweak of a constant goes the right way."""
    refused: float = 0.08
    broken: tuple[tuple[str, float], ...] = (
        ("diff", 0.18),
        ("rewrite", 0.32),
        ("crossover", 0.28),
        ("fix", 0.45),
        ("draft", 0.35),
    )

    def with_broken(self, **broken: float) -> Skill:
        return replace(self, broken=tuple({**dict(self.broken), **broken}.items()))


CHEAP = Skill("cheap")
STRONG = Skill(
    "strong",
    price=6.0,
    sense=0.6,
    habit=1.6,
    direction=0.65,
    refused=0.03,
    broken=(("diff", 0.07), ("rewrite", 0.14), ("crossover", 0.12), ("fix", 0.22), ("draft", 0.15)),
)


class Coder:
    def __init__(self, skill: Skill, land: Landscape) -> None:
        self.skill, self.land = skill, land
        self._broken = {"mutate": 0.1, **dict(skill.broken)}
        rng = random.Random(f"{land.shape.name} {land.seed} {skill.name}")
        sense = max(-1.0, min(1.0, skill.sense * land.shape.sense))
        other = math.sqrt(1 - sense * sense)

        def weights(values):
            mean = sum(values) / len(values)
            sd = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)) or 1.0
            return [math.exp(skill.habit * (sense * (v - mean) / sd + other * rng.gauss(0, 1))) for v in values]

        self._block = [[weights(values) for values in marginal] for marginal in land.marginals]
        self._paradigm = weights(land.ceilings) if len(land.ceilings) > 1 else [1.0]

    def cost(self, operator: str) -> float:
        return self.skill.price * TOKENS[operator]

    def breaks(self, operator: str, rng: random.Random) -> bool:
        return rng.random() < self._broken[operator]

    def change(self, operator: str, parent: Genome, partner: Genome | None, rng: random.Random) -> Genome | None:
        """The genome that it means to write; None when the reply is of no use."""
        if operator == "mutate":  # seeded random edits, no model: loopty's control
            return self._mutate(parent, rng)
        if rng.random() < self.skill.refused:
            return None
        if operator == "draft":
            return self._draft(rng)
        if operator == "crossover" and partner:
            return self._cross(parent, partner, rng)
        if operator == "rewrite":
            return self._rewrite(parent, rng)
        if operator == "fix":
            return parent
        return self._diff(parent, rng)

    def _pick(self, weights, rng):
        return rng.choices(range(len(weights)), weights)[0]

    def _put(self, p: int, blocks: list, constants: list, b: int, choice: int, rng) -> None:
        blocks[b] = choice
        for j in range(CONSTANTS):
            hint = round(self.land.hints[p][b][choice][j] + rng.gauss(0, 0.05 * GRID))
            constants[CONSTANTS * b + j] = min(GRID, max(0, hint))

    def _draft(self, rng) -> Genome:
        p = self._pick(self._paradigm, rng)
        n = self.land.shape.blocks
        blocks, constants = [0] * n, [0] * (n * CONSTANTS)
        for b in range(n):
            self._put(p, blocks, constants, b, self._pick(self._block[p][b], rng), rng)
        return Genome(p, tuple(blocks), tuple(constants))

    def _rewrite(self, parent: Genome, rng) -> Genome:
        p, n = parent.paradigm, self.land.shape.blocks
        if len(self._paradigm) > 1 and rng.random() < 0.2:
            p = self._pick(self._paradigm, rng)
        blocks, constants = list(parent.blocks), list(parent.constants)
        groups = self.land.groups  # whoever rewrites a module rewrites what belongs together
        chosen = rng.choice(groups) if groups else rng.sample(range(n), rng.randint(2, 4))
        for b in chosen:
            self._put(p, blocks, constants, b, self._pick(self._block[p][b], rng), rng)
        return Genome(p, tuple(blocks), tuple(constants))

    def _diff(self, parent: Genome, rng) -> Genome:
        p, n = parent.paradigm, self.land.shape.blocks
        blocks, constants = list(parent.blocks), list(parent.constants)
        if rng.random() < 0.5:
            for _ in range(rng.randint(1, 2)):
                i = rng.randrange(n * CONSTANTS)
                target = self.land.targets[p][i // CONSTANTS][blocks[i // CONSTANTS]][i % CONSTANTS]
                right = 1 if target > constants[i] else -1
                sign = right if rng.random() < self.skill.direction else -right
                step = 1 + int(abs(rng.gauss(0, 0.15 * GRID)))
                constants[i] = min(GRID, max(0, constants[i] + sign * step))
        else:
            b = rng.randrange(n)
            self._put(p, blocks, constants, b, self._pick(self._block[p][b], rng), rng)
        return Genome(p, tuple(blocks), tuple(constants))

    def _mutate(self, parent: Genome, rng) -> Genome:
        blocks, constants = list(parent.blocks), list(parent.constants)
        if rng.random() < 0.7:
            for _ in range(rng.randint(1, 2)):
                i = rng.randrange(len(constants))
                constants[i] = min(
                    GRID, max(0, constants[i] + rng.choice((-1, 1)) * (1 + int(abs(rng.gauss(0, 0.15 * GRID)))))
                )
        else:
            blocks[rng.randrange(len(blocks))] = rng.randrange(self.land.shape.choices)
        return Genome(parent.paradigm, tuple(blocks), tuple(constants))

    def _cross(self, parent: Genome, partner: Genome, rng) -> Genome:
        blocks, constants = list(parent.blocks), list(parent.constants)
        skew = 0.5 + 0.25 * self.skill.sense
        mine, yours = self.land.values(parent), self.land.values(partner)
        for b in range(self.land.shape.blocks):
            own = slice(CONSTANTS * b, CONSTANTS * b + CONSTANTS)
            if rng.random() < (skew if yours[b] > mine[b] else 1 - skew):
                blocks[b], constants[own] = partner.blocks[b], list(partner.constants[own])
        return Genome(parent.paradigm, tuple(blocks), tuple(constants))
