"""Change the better of a few nodes drawn at random: mostly the good ones, sometimes an outsider."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from loopty.core.history import Node
from loopty.core.objective import gain
from loopty.core.parts import Ask


@dataclass(frozen=True, slots=True)
class TournamentSelector:
    """`size` finished nodes are drawn, the best of them is taken."""

    size: int = 4

    def parent(self, ask: Ask) -> Node:
        finished = [node for node in ask.nodes if node.outcome and node.outcome.finished]
        if not finished:
            return ask.root
        drawn = [ask.rng.choice(finished) for _ in range(self.size)]

        def better(one: Node, other: Node) -> Node:
            assert one.outcome
            assert other.outcome
            metrics = ask.history.metrics(one)
            return one if gain(one.outcome.metrics, other.outcome.metrics, metrics)[0] >= 0 else other

        return functools.reduce(better, drawn)
