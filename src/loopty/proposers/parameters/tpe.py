"""A tree-structured Parzen estimator without other packages: the point that looks most like good trials.

All parameters are drawn together (Bergstra et al. 2011; Falkner et al. 2018): each trial is a kernel in the unit
cube. Candidates are drawn around the best trials, and the one wins for which the density of good trials is largest
beside the density of the others. Only the best and the newest trials count, so a draw costs the same after ten
thousand trials as after two hundred.
"""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.proposal import Proposal
from loopty.domain.space import Parameter, ParameterKind, Params, Space, Value
from loopty.domain.trial import Ending, Verdict
from loopty.engine.protocols import Ask
from loopty.proposers.shared_pool import parameter_parent, params_line
from loopty.record.node_record import Node

if TYPE_CHECKING:
    from loopty.proposers.services import Services

_STARTUP = 10
"""Trials that are drawn at random first."""
_GOOD_SHARE = 0.1
_MOST_GOOD = 25
_MOST_OTHERS = 100
"""The newest trials that stand for all that are not good: a draw takes time for each."""
_CANDIDATES = 24
_WIDEST, _NARROWEST = 0.25, 0.01
"""Bounds of a kernel's width, as a share of the range."""
_PRIOR = 1.0
"""The weight of the uniform density, in trials."""
_UNIFORM_VARIANCE = 1 / 12
_SAME_CHOICE = 0.8
"""How much of a categorical kernel lies on its own choice; the rest is spread over all."""
_MOST_DRAWS = 8
"""How often a point that was tried before is drawn anew."""
_WORST = float("-inf")

Place = Mapping[str, float]
"""Where a trial lies: the fraction of the range by parameter; for a categorical one, the number of the choice."""


class _Seen:
    """One trial that the sampler learns from."""

    __slots__ = ("place", "value")

    def __init__(self, place: Place, value: float) -> None:
        self.place = place
        self.value = value


class TpeProposer:
    """Draws at random first, and then near the best trials.

    A pruned or failed trial counts as a bad one, and so does a running one. `space` may grow meanwhile.
    """

    name = "tpe"

    def __init__(self, space: Space) -> None:
        self._space = space
        self._tree = ""
        self._nodes_seen = 0
        self._undecided: list[NodeId] = []
        self._judged: list[_Seen] = []
        self._ranked: list[tuple[float, int]] = []
        """The best trials as (minus their value, number), best first; the number counts from 0."""
        self._tried: set[tuple[tuple[str, Value], ...]] = set()

    async def propose(self, ask: Ask) -> Proposal:
        parent = parameter_parent(ask)
        running = self._learn(ask, parent.tree)
        params = self._draw(ask.rng, running)
        for _ in range(_MOST_DRAWS):
            if _key(params) not in self._tried:
                break
            params = self._space.sample(ask.rng)
        return Proposal(self.name, parent.id, params_line(params), params)

    def _learn(self, ask: Ask, tree: str) -> list[Place]:
        """Take the verdicts since the last question; returns where trials without one lie."""
        if tree != self._tree:  # results of other code say nothing about parameters
            self._tree, self._nodes_seen = tree, 0
            self._undecided, self._judged, self._ranked, self._tried = [], [], [], set()
        names = ask.history.nodes_of_pool(ask.run, ask.pool)
        new = [*self._undecided, *names[self._nodes_seen :]]
        self._nodes_seen = len(names)
        nodes = [node for node in map(ask.history.__getitem__, new) if node.tree == tree]
        self._undecided = [node.id for node in nodes if not node.verdict]
        sign, metric = self._metric(ask)
        for node in sorted((node for node in nodes if node.verdict), key=lambda node: node.judged):
            self._take(node, sign, metric)
        self._tried.update(_key(node.params) for node in nodes)
        return [place for node in nodes if not node.verdict and (place := self._place(node.params))]

    def _metric(self, ask: Ask) -> tuple[int, str]:
        metrics = ask.history.metrics(ask.root)
        metric = score_metric(metrics) if metrics else None
        return (metric.direction.sign, metric.name) if metric else (1, "")

    def _take(self, node: Node, sign: int, metric: str) -> None:
        place = self._place(node.params)
        outcome = node.outcome
        if not place or outcome is None or outcome.ending is Ending.CANCELLED:
            return
        is_good = outcome.is_finished and node.verdict is not Verdict.REJECTED and metric in outcome.metrics
        value = sign * outcome.metrics[metric] if is_good else _WORST
        self._judged.append(_Seen(place, value))
        if is_good:
            bisect.insort(self._ranked, (-value, len(self._judged) - 1))
            del self._ranked[_MOST_GOOD:]

    def _place(self, params: Params) -> Place:
        """Say where these values lie; values that the space has no longer are left out."""
        known = self._space.parameters
        return {
            name: float(known[name].choices.index(value))
            if known[name].type is ParameterKind.CATEGORICAL
            else known[name].fraction(value)
            for name, value in params.items()
            if name in known and known[name].accepts(value)
        }

    def _draw(self, rng: random.Random, running: Sequence[Place]) -> dict[str, Value]:
        count = len(self._judged)
        if count < _STARTUP or not self._ranked:
            return self._space.sample(rng)
        good = [number for _, number in self._ranked[: min(math.ceil(_GOOD_SHARE * count), _MOST_GOOD)]]
        newest = range(max(count - _MOST_OTHERS - len(good), 0), count)
        others = [self._judged[number].place for number in newest if number not in set(good)][-_MOST_OTHERS:]
        liked = _Density([self._judged[number].place for number in good], self._space.parameters)
        rest = _Density([*others, *running], self._space.parameters)
        candidates = [self._candidate(liked, rng) for _ in range(_CANDIDATES)]
        return max(candidates, key=lambda params: _promise(self._place(params), liked, rest))

    def _candidate(self, liked: _Density, rng: random.Random) -> dict[str, Value]:
        drawn = liked.draw(rng)
        params: dict[str, Value] = {}
        for name in self._space.order():
            if self._space.is_active(name, params):
                parameter = self._space.parameters[name]
                params[name] = _value(parameter, drawn[name]) if name in drawn else parameter.sample(rng)
        return params


Coordinates = tuple[float, ...]


class _Density:
    """The mean of one kernel for each trial, and of the uniform density.

    Distances are in widths. A choice has a coordinate for each value, so that all choices are equally far apart.
    """

    def __init__(self, places: Sequence[Place], parameters: Mapping[str, Parameter]) -> None:
        self._places = places
        self._choices = {
            name: len(parameter.choices)
            for name, parameter in parameters.items()
            if parameter.type is ParameterKind.CATEGORICAL
        }
        self._widths = dict(self._find_widths([name for name in parameters if name not in self._choices]))
        self._kernels: dict[tuple[str, ...], list[_Kernels]] = {}
        """By the names of the parameters that a place has."""

    def _find_widths(self, numbers: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Choose the kernel's width of each number by Silverman's rule: narrow once good trials lie together."""
        shrink = max(len(self._places), 1) ** (-1 / (len(numbers) + len(self._choices) + 4))
        for name in numbers:
            values = [place[name] for place in self._places if name in place]
            mean = sum(values) / max(len(values), 1)
            squares = sum([(value - mean) ** 2 for value in values]) + _PRIOR * _UNIFORM_VARIANCE
            spread = math.sqrt(squares / (len(values) + _PRIOR))
            yield name, min(max(1.06 * spread * shrink, _NARROWEST), _WIDEST)

    def draw(self, rng: random.Random) -> Place:
        """Draw a place near one of the trials; nothing for parameters that it did not have."""
        at = rng.random() * (len(self._places) + _PRIOR)
        if at >= len(self._places):
            return {}
        drawn: dict[str, float] = {}
        for name, centre in self._places[int(at)].items():
            if name in self._widths:
                drawn[name] = _inside(rng, centre, self._widths[name])
            else:
                is_same = rng.random() < _SAME_CHOICE
                drawn[name] = centre if is_same else float(rng.randrange(self._choices[name]))
        return drawn

    def at(self, place: Place) -> float:
        """Compute the density at a place."""
        uniform = 1.0
        for name in place:
            uniform /= self._choices.get(name, 1)
        total, names = _PRIOR * uniform, tuple(place)
        if names not in self._kernels:
            self._kernels[names] = self._kernels_for(place)
        exp, dist = math.exp, math.dist
        for kernels in self._kernels[names]:
            here = self._coordinates(place, kernels.names)
            total += sum([weight * exp(-0.5 * dist(here, centre) ** 2) for centre, weight in kernels.centres])
        return total / (len(self._places) + _PRIOR)

    def _kernels_for(self, place: Place) -> list[_Kernels]:
        """Group the trials by the parameters that they share with a place; they say nothing of its others."""
        groups: dict[tuple[str, ...], _Kernels] = {}
        for other in self._places:
            names = tuple(name for name in place if name in other)
            weight = 1.0
            for name in place:
                weight *= self._factor(name, other.get(name))
            kernels = groups.setdefault(names, _Kernels(names))
            kernels.centres.append((self._coordinates(other, names), weight))
        return list(groups.values())

    def _factor(self, name: str, centre: float | None) -> float:
        """Return what makes the kernel's integral over the range 1; the density itself, where it has no centre."""
        if count := self._choices.get(name):
            return 1 / count if centre is None else _SAME_CHOICE + (1 - _SAME_CHOICE) / count
        if centre is None:
            return 1.0
        width = self._widths[name]
        scale = 1 / (width * math.sqrt(2))
        inside = (math.erf((1 - centre) * scale) + math.erf(centre * scale)) / 2
        return 1 / (inside * width * math.sqrt(2 * math.pi))

    def _coordinates(self, place: Place, names: Sequence[str]) -> Coordinates:
        found: list[float] = []
        for name in names:
            if count := self._choices.get(name):
                other = (1 - _SAME_CHOICE) / count
                far = math.sqrt(-math.log(other / (_SAME_CHOICE + other)))
                found += [far if number == place[name] else 0.0 for number in range(count)]
            else:
                found.append(place[name] / self._widths[name])
        return tuple(found)


class _Kernels:
    """The kernels of trials that share these parameters with a place."""

    __slots__ = ("centres", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.centres: list[tuple[Coordinates, float]] = []


def _promise(place: Place, liked: _Density, rest: _Density) -> float:
    return liked.at(place) / rest.at(place)


def _inside(rng: random.Random, centre: float, width: float) -> float:
    """Draw from a normal distribution, cut off at 0 and 1."""
    for _ in range(20):
        if 0 <= (drawn := rng.gauss(centre, width)) <= 1:
            return drawn
    return min(max(centre, 0.0), 1.0)


def _value(parameter: Parameter, drawn: float) -> Value:
    if parameter.type is ParameterKind.CATEGORICAL:
        return parameter.choices[int(drawn)]
    return parameter.at(drawn)


def _key(params: Params) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted(params.items()))


def make_proposer(_options: object, services: Services) -> TpeProposer:
    return TpeProposer(services.space)
