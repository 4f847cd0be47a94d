"""Samplers of tune mode: each draws the next point of one proposal's parameters from the few measured so far."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loopty.domain.objective import Direction
from loopty.domain.space import ParameterKind, Space, Value
from loopty.judge.tuning import DrawPoint
from loopty.proposers.parameters.optuna_samplers import (
    STATELESS_SAMPLERS,
    distribution_of,
    require_modules,
    suggest_value,
)
from loopty.record.tunings import TunePoint

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

_FIRST_STEP, _SMALLEST_STEP, _SHRINKAGE = 0.25, 0.05, 0.93
"""In units of a parameter's range: the standard deviation of a step, and its factor after each point in vain."""
_ONE_PARAMETER = 0.7
"""How often a step changes one parameter alone."""
_MOST_DRAWS = 8


def make_draw(sampler: str) -> DrawPoint:
    """Return the sampler of this name. Raises Misuse if a package that it needs is missing."""
    if sampler in STATELESS_SAMPLERS:
        require_modules(sampler, STATELESS_SAMPLERS[sampler].needs)
        return _OptunaDraw(sampler)
    return {"local": draw_near_best, "random": _draw_anywhere}[sampler]


def draw_near_best(
    space: Space, points: Sequence[TunePoint], direction: Direction, rng: random.Random
) -> dict[str, Value]:
    """Draw a step from the best point so far: smaller, the more points were no better."""
    best, misses = points[0], 0
    for point in points[1:]:
        is_better = point.score is not None and (
            best.score is None or direction.sign * (point.score - best.score) > 0
        )
        best, misses = (point, misses) if is_better else (best, misses + 1)
    scale = max(_SMALLEST_STEP, _FIRST_STEP * _SHRINKAGE**misses)
    measured = [dict(point.params) for point in points]
    params = dict(best.params)
    for _ in range(_MOST_DRAWS):
        params = _step(space, dict(best.params), scale, rng)
        if params not in measured:
            break
    return params


def _step(space: Space, params: dict[str, Value], scale: float, rng: random.Random) -> dict[str, Value]:
    names = [rng.choice(list(params))] if rng.random() < _ONE_PARAMETER else list(params)
    for name in names:
        parameter = space.parameters[name]
        if parameter.type is ParameterKind.CATEGORICAL:
            others = [choice for choice in parameter.choices if choice != params[name]]
            params[name] = rng.choice(others or list(parameter.choices))
        else:
            fraction = parameter.fraction(params[name]) + rng.gauss(0, scale)
            params[name] = parameter.at(min(max(fraction, 0.0), 1.0))
    return space.complete_point(params)


def _draw_anywhere(
    space: Space, _points: Sequence[TunePoint], _direction: Direction, rng: random.Random
) -> dict[str, Value]:
    return space.sample(rng)


class _OptunaDraw:
    """One of Optuna's samplers that keep no state: the study is made anew from the points."""

    def __init__(self, name: str) -> None:
        self._spec = STATELESS_SAMPLERS[name]

    def __call__(
        self, space: Space, points: Sequence[TunePoint], direction: Direction, rng: random.Random
    ) -> dict[str, Value]:
        import optuna
        from optuna.trial import TrialState, create_trial

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings(action="ignore"):
            known = {name: distribution_of(parameter) for name, parameter in space.parameters.items()}
            sampler: BaseSampler = getattr(optuna.samplers, self._spec.sampler)(
                seed=rng.randrange(2**31), **self._spec.options
            )
            ways = optuna.study.StudyDirection
            way = ways.MAXIMIZE if direction.sign > 0 else ways.MINIMIZE
            study = optuna.create_study(direction=way, sampler=sampler)
            for point in points:
                study.add_trial(
                    create_trial(
                        state=TrialState.FAIL if point.score is None else TrialState.COMPLETE,
                        params=dict(point.params),
                        distributions={name: known[name] for name in point.params},
                        value=point.score,
                    )
                )
            trial, params = study.ask(), dict[str, Value]()
            for name in space.order():
                if space.is_active(name, params):
                    params[name] = suggest_value(trial, name, space.parameters[name])
        return params
