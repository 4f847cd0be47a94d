"""Synthetic landscapes: programs as genomes (a paradigm, blocks with epistasis, constants per block).

A score is U_p * (s0 + (1 - s0) * inner), inner the mean over blocks of table_b(blocks) * quality of its constants.
`Landscape.norm` maps the root's score to 0 and the best possible score to 1, so that shapes can be compared.
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from typing import NamedTuple

from loopty.kit.records import replace

CONSTANTS = 2  # per block
GRID = 40  # constants are 0..GRID


@dataclass(frozen=True)
class Shape:
    name: str
    blocks: int = 8
    choices: int = 6
    epistasis: int = 1
    """How many other blocks a block's value depends on."""
    weight: float = 0.5
    """How much of a block's value hangs on its constants."""
    width: float = 0.22
    """How near the constants must be."""
    ripple: float = 0.0
    paradigms: int = 3
    ceiling: tuple[float, float] = (0.7, 1.0)
    """Range of what paradigms can reach."""
    reveal: float = 0.5
    """How much of the ceiling a first draft shows; low: late bloomers."""
    hint: float = 0.5
    """Noise of the constants that a model writes with a new block, in units of their range."""
    trap: int = 0
    """Size of deceptive groups of blocks; 0: none."""
    step: float = 0.0
    """Scores are rounded down to multiples of this share of the range: plateaus."""
    noise: float = 0.0
    """Standard deviation of a measurement, in units of the normalised score."""
    tasks: int = 1
    conflict: float = 0.0
    sense: float = 1.0
    """Scales how much the models' habits agree with what is good; negative: they mislead."""
    mature: bool = False
    """The root is good work already: a first draft is far behind it."""
    tuned_root: bool = False
    """The root's constants are good already: any new block looks worse until it is tuned."""


SHAPES = {
    s.name: s
    for s in (
        Shape("unimodal", epistasis=0, paradigms=1, weight=0.5),
        Shape("rugged", epistasis=3, ripple=0.3, paradigms=2, weight=0.4),
        Shape("deceptive", epistasis=0, trap=2, paradigms=1, weight=0.3, sense=-0.5),
        Shape("plateau", epistasis=1, step=0.12, paradigms=2),
        Shape("conditional", epistasis=1, weight=0.9, width=0.15, hint=0.9, tuned_root=True, paradigms=2),
        Shape("noisy", epistasis=1, noise=0.06, paradigms=2),
        Shape("multitask", epistasis=1, tasks=6, conflict=0.5, paradigms=2),
        Shape("bloomer", epistasis=1, paradigms=8, ceiling=(0.4, 1.0), reveal=0.1, weight=0.6),
        Shape("lottery", epistasis=2, paradigms=30, ceiling=(0.3, 1.0), reveal=0.95, weight=0.2, width=0.4),
    )
}

MATURE = {f"{s.name}+": replace(s, name=f"{s.name}+", mature=True, tuned_root=True) for s in SHAPES.values()}
ALL = {**SHAPES, **MATURE}


def random_shape(seed: int) -> Shape:
    """Drawn from everything between the named shapes: for validation on what no constant was chosen for."""
    rng = random.Random(f"shape {seed}")
    mature = rng.random() < 0.4
    return Shape(
        f"random{seed}",
        blocks=rng.choice((6, 8, 10)),
        choices=rng.choice((4, 6)),
        epistasis=rng.choice((0, 1, 1, 2)),
        weight=rng.uniform(0.2, 0.9),
        width=rng.uniform(0.12, 0.4),
        ripple=rng.choice((0.0, 0.0, 0.3)),
        paradigms=rng.choice((1, 2, 4, 8)),
        ceiling=(rng.uniform(0.3, 0.8), 1.0),
        reveal=rng.uniform(0.1, 0.95),
        hint=rng.uniform(0.3, 0.9),
        trap=rng.choice((0, 0, 0, 2)),
        step=rng.choice((0.0, 0.0, 0.0, 0.08)),
        noise=rng.choice((0.0, 0.0, 0.04)),
        sense=rng.uniform(-0.3, 1.3),
        mature=mature,
        tuned_root=mature or rng.random() < 0.3,
    )


class Genome(NamedTuple):
    paradigm: int
    blocks: tuple[int, ...]
    constants: tuple[int, ...]


class Landscape:
    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape, self.seed = shape, seed
        rng = random.Random(f"{shape.name} {seed}")
        n, a, k = shape.blocks, shape.choices, shape.epistasis
        self.neighbours = [[b, *rng.sample([o for o in range(n) if o != b], k)] for b in range(n)]
        low, high = shape.ceiling
        tops = [rng.random() ** 1.5 for _ in range(shape.paradigms)]
        tops[rng.randrange(shape.paradigms)] = 1.0
        self.ceilings = [low + (high - low) * t for t in tops]
        self.weights = [[1 / n] * n]
        if shape.tasks > 1:
            drawn = [[rng.expovariate(1) for _ in range(n)] for _ in range(shape.tasks)]
            self.weights = [[w / sum(row) for w in row] for row in drawn]
        self.tables, self.hints, self.fits, self.targets = [], [], [], []
        for _ in range(shape.paradigms):
            base = [[rng.random() for _ in range(a ** (k + 1))] for _ in range(n)]

            def mix(v):
                return (1 - shape.conflict) * v + shape.conflict * rng.random() if shape.conflict else v

            self.tables.append([[[mix(v) for v in row] for row in base] for _ in range(shape.tasks)])

            def each(make):
                return [[[make() for _ in range(CONSTANTS)] for _ in range(a)] for _ in range(n)]

            targets = each(lambda: round(GRID * (0.1 + 0.8 * rng.random())))
            self.targets.append(targets)

            def wrong(t):
                return min(GRID, max(0, round(t + rng.gauss(0, shape.hint / 2 * GRID))))

            self.hints.append([[[wrong(t) for t in pair] for pair in row] for row in targets])
            self.fits.append([[[self._fits(t) for t in pair] for pair in row] for row in targets])
        self.gold = [rng.randrange(a) for _ in range(n)]
        self.groups = (
            [list(range(i, min(i + shape.trap, n))) for i in range(0, n, shape.trap)] if shape.trap else []
        )
        self.group_of = {b: g for g in self.groups for b in g}
        self.marginals = [self._marginal(p) for p in range(shape.paradigms)]
        order = sorted(range(shape.paradigms), key=self.ceilings.__getitem__)
        first = order[-1 - rng.randrange(min(2, len(order)))] if shape.mature else order[len(order) // 4]
        better = (
            (lambda b: sorted(range(a), key=self.marginals[first][b].__getitem__)[a // 2 :])
            if shape.mature
            else (lambda b: sorted(range(a), key=self.marginals[first][b].__getitem__)[: a // 2 + 1])
        )
        blocks = tuple(rng.choice(better(b)) for b in range(n))
        spread = (0.08 if shape.tuned_root else 0.35) * GRID
        constants = tuple(
            min(GRID, max(0, round(self.targets[first][b][blocks[b]][j] + rng.gauss(0, spread))))
            for b in range(n)
            for j in range(CONSTANTS)
        )
        self.root = Genome(first, blocks, constants)
        self.best_raw = max(self._shown(p, self._inner_best(p)) for p in order[-3:])
        self.low = self._raw(self.root)[0]
        self.span = max(self.best_raw - self.low, 1e-6)

    def score(self, genome: Genome) -> tuple[float, tuple[float, ...]]:
        """The true normalised score, and the scores by task."""
        raw, tasks = self._raw(genome)
        value = (raw - self.low) / self.span
        if step := self.shape.step:
            value = math.floor(value / step + 1e-9) * step
        return value, tuple([(t - self.low) / self.span for t in tasks])

    def values(self, genome: Genome, task: int = 0) -> list[float]:
        """What each block is worth where it stands."""
        a, free = self.shape.choices, 1 - self.shape.weight
        p, blocks, constants = genome
        tables, fits, values, i = self.tables[p][task], self.fits[p], [], 0
        for b, neighbours in enumerate(self.neighbours):
            index = 0
            for o in neighbours:
                index = index * a + blocks[o]
            value, fit = tables[b][index], fits[b][blocks[b]]
            if self.groups:
                group = self.group_of[b]
                golds = sum(blocks[o] == self.gold[o] for o in group)
                value = 1.0 if golds == len(group) else 0.6 * value * (1 - 0.7 * golds / len(group))
            values.append(value * (free + fit[0][constants[i]] + fit[1][constants[i + 1]]))
            i += CONSTANTS
        return values

    def _shown(self, p: int, inner: float) -> float:
        """What a paradigm can do shows early, or only when its inside is good."""
        reveal = self.shape.reveal
        return self.ceilings[p] * inner * (reveal + (1 - reveal) * inner) + 0.5 * (1 - reveal) * inner

    def _raw(self, genome: Genome) -> tuple[float, list[float]]:
        tasks = []
        for t, weights in enumerate(self.weights):
            inner = sum([w * v for w, v in zip(weights, self.values(genome, t), strict=False)])
            tasks.append(self._shown(genome.paradigm, inner))
        return sum(tasks) / len(tasks), tasks

    def _fits(self, target: int) -> list[float]:
        """What a constant is worth by where it stands."""
        out, shape = [], self.shape
        for at in range(GRID + 1):
            away = (at - target) / GRID / shape.width
            ripple = 1 - shape.ripple * (0.5 - 0.5 * math.cos(9 * away))
            out.append(math.exp(-away * away) * ripple * shape.weight / CONSTANTS)
        return out

    def _marginal(self, p: int) -> list[list[float]]:
        """The mean value of each choice of each block."""
        a, rest = self.shape.choices, self.shape.choices**self.shape.epistasis
        tables = self.tables[p]
        return [
            [
                sum(sum(task[b][c * rest : (c + 1) * rest]) for task in tables) / rest / len(tables)
                for c in range(a)
            ]
            for b in range(self.shape.blocks)
        ]

    def _inner_best(self, p: int) -> float:
        """By hill climbing from many starts, all constants right."""
        if self.groups:
            return 1.0
        n, a = self.shape.blocks, self.shape.choices
        table = [
            [
                sum(w[b] * task[b][i] for w, task in zip(self.weights, self.tables[p], strict=False))
                / len(self.weights)
                for i in range(a ** (self.shape.epistasis + 1))
            ]
            for b in range(n)
        ]

        def total(g):
            out = 0.0
            for b, neighbours in enumerate(self.neighbours):
                index = 0
                for o in neighbours:
                    index = index * a + g[o]
                out += table[b][index]
            return out

        rng, most = random.Random(p), 0.0
        for _ in range(24):
            at = [rng.randrange(a) for _ in range(n)]
            value, moved = total(at), True
            while moved:
                moved = False
                for b in rng.sample(range(n), n):
                    was = at[b]
                    for choice in range(a):
                        at[b] = choice
                        now = total(at)
                        if now > value + 1e-12:
                            value, was, moved = now, choice, True
                    at[b] = was
            most = max(most, value)
        return most


@functools.lru_cache(maxsize=64)
def make_landscape(name: str, seed: int) -> Landscape:
    """The landscape of this shape, or of a random shape, which is drawn by the seed."""
    return Landscape(random_shape(seed) if name == "random" else ALL[name], seed)
