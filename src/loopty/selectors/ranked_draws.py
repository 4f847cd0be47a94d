"""Change one of the best nodes, drawn by its rank, by its score, or by how seldom it was changed."""

from __future__ import annotations

import math

from loopty.engine.protocols import Ask, Selection
from loopty.kit.dataclass import Record, dataclass
from loopty.kit.option import option
from loopty.record.trials import TrialCounts
from loopty.selectors.judged_nodes import NodeValue, population


@dataclass(frozen=True, slots=True)
class TopSelector(Record):
    """One of the `size` best nodes, all equally likely."""

    size: int = option("How many of the best nodes are drawn from.", 3, minimum=1)

    def select(self, ask: Ask) -> Selection:
        ranked = population(ask)[: self.size]
        place = ask.rng.randrange(len(ranked))
        return Selection(ask.history[ranked[place].id], f"place {place + 1} of the {len(ranked)} best nodes")


@dataclass(frozen=True, slots=True)
class EpsilonSelector(Record):
    """Mostly the best node, sometimes any of the best ones."""

    epsilon: float = option("The share of proposals that change any of the 64 best nodes.", 0.2, minimum=0)

    def select(self, ask: Ask) -> Selection:
        if ask.rng.random() >= self.epsilon:
            return Selection(ask.best, "the best node so far")
        chosen = ask.rng.choice(population(ask))
        return Selection(ask.history[chosen.id], f"any good node, in {100 * self.epsilon:.0f} % of proposals")


@dataclass(frozen=True, slots=True)
class SoftmaxSelector(Record):
    """Better nodes are more likely, by how far their scores lie apart."""

    temperature: float = option(
        "High draws alike, low draws the best; a share of the scores' range.", 0.2, above=0
    )

    def select(self, ask: Ask) -> Selection:
        ranked = population(ask)
        weights = [math.exp((share - 1) / self.temperature) for share in _shares(ranked)]
        place = ask.rng.choices(range(len(ranked)), weights)[0]
        chance = weights[place] / sum(weights)
        return Selection(
            ask.history[ranked[place].id], f"drawn by its score, with a chance of {100 * chance:.0f} %"
        )


@dataclass(frozen=True, slots=True)
class UctSelector(Record):
    """The best sum of score and novelty: a good node that was seldom changed."""

    exploration: float = option("How much more a node counts that was seldom changed.", 0.5, minimum=0)

    def select(self, ask: Ask) -> Selection:
        ranked = population(ask)
        total = math.log(1 + TrialCounts.of(ask.history.runs[ask.run], ask.pool).started)

        def bound(place: int) -> float:
            children = ask.history[ranked[place].id].children
            return shares[place] + self.exploration * math.sqrt(total / (1 + children))

        shares = _shares(ranked)
        place = max(range(len(ranked)), key=bound)
        node = ask.history[ranked[place].id]
        return Selection(node, f"the best upper bound: place {place + 1}, changed {node.children} times")


def _shares(ranked: list[NodeValue]) -> list[float]:
    """Where each score lies between the worst, 0, and the best, 1."""
    low, high = ranked[-1].value, ranked[0].value
    return [(one.value - low) / (high - low) if high > low else 1.0 for one in ranked]
