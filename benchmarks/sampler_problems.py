"""What samplers are compared on: four spaces, a function to minimise over each, and its learning curves."""

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from loopty.domain.space import Parameter, ParameterKind, Params, Space

STEPS = 10
"""Reports of one trial, the last one with its final value."""


@dataclass(frozen=True)
class Problem:
    """A space and a function over it whose minimum is known."""

    name: str
    space: Space
    value: Callable[[Params], float]
    minimum: float
    delay: float
    """How far a curve begins above its end."""
    grid_points: int = 4
    """Values per number in a grid that is larger than the budget."""

    def regret(self, value: float) -> float:
        """How far a value is from the best possible one, on a logarithmic scale."""
        return math.log10(max(value - self.minimum, 1e-12))

    def curve(self, params: Params) -> list[float]:
        """The values that a trial reports: they fall to its final value, in some trials faster than in others."""
        final = self.value(params)
        lag = self.delay * (0.5 + random.Random(repr(sorted(params.items()))).random())
        return [final + lag * (0.6**step - 0.6**STEPS) for step in range(1, STEPS + 1)]


def _number(low: float, high: float, log: bool = False) -> Parameter:
    return Parameter(ParameterKind.FLOAT, low, high, log=log)


def _branin(params: Params) -> float:
    x, y = float(params["x"]), float(params["y"])
    bend = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return bend * bend + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def _rosenbrock(params: Params) -> float:
    point = [float(params[f"x{number}"]) for number in range(5)]
    return sum(100 * (after - here**2) ** 2 + (1 - here) ** 2 for here, after in itertools.pairwise(point))


def _conditional(params: Params) -> float:
    """Three methods, each with parameters of its own; the best one needs the most care."""
    if params["method"] == "forest":
        return 2.0 + 0.1 * abs(math.log2(float(params["trees"])) - 7) + 0.05 * abs(float(params["depth"]) - 11)
    if params["method"] == "linear":
        return 1.0 + 0.5 * (math.log10(float(params["penalty"])) + 2.5) ** 2
    kernel = {"flat": 1.5, "round": 0.0, "sharp": 0.7}[str(params["kernel"])]
    width, bias = math.log10(float(params["width"])), float(params["bias"])
    return kernel + 0.3 * (width - 0.6) ** 2 + (bias - 0.3) ** 2


def _network(params: Params) -> float:
    """Categories that shift the best rate, and numbers on a logarithmic scale."""
    loss, rate = {"adam": (0.0, -3.2), "sgd": (0.4, -1.1), "rms": (0.2, -3.6), "lion": (0.6, -4.2)}[
        str(params["optimizer"])
    ]
    loss += {"relu": 0.3, "gelu": 0.0, "tanh": 0.8}[str(params["activation"])]
    loss += 0.6 * (math.log10(float(params["rate"])) - rate) ** 2
    loss += 0.1 * (math.log10(float(params["decay"])) + 4.4) ** 2
    return loss + 0.3 * (math.log2(float(params["units"])) - 6.3) ** 2 / 4


@cache
def problems() -> tuple[Problem, ...]:
    choices, whole = ParameterKind.CATEGORICAL, ParameterKind.INT
    conditional = {
        "method": Parameter(choices, choices=("forest", "linear", "kernel")),
        "trees": Parameter(whole, 8, 1024, log=True, when={"method": "forest"}),
        "depth": Parameter(whole, 1, 20, when={"method": "forest"}),
        "penalty": Parameter(ParameterKind.FLOAT, 1e-6, 1e2, log=True, when={"method": "linear"}),
        "kernel": Parameter(choices, choices=("flat", "round", "sharp"), when={"method": "kernel"}),
        "width": Parameter(ParameterKind.FLOAT, 1e-3, 1e3, log=True, when={"method": "kernel"}),
        "bias": Parameter(ParameterKind.FLOAT, -2.0, 2.0, when={"method": "kernel"}),
    }
    network = {
        "optimizer": Parameter(choices, choices=("sgd", "adam", "rms", "lion")),
        "activation": Parameter(choices, choices=("relu", "gelu", "tanh")),
        "rate": _number(1e-6, 1.0, log=True),
        "decay": _number(1e-8, 1e-1, log=True),
        "units": Parameter(whole, 4, 1024, log=True),
    }
    plane = {"x": _number(-5, 10), "y": _number(0, 15)}
    valley = {f"x{number}": _number(-5, 10) for number in range(5)}
    return (
        Problem("branin", Space(plane), _branin, 0.397887, 60.0, grid_points=16),
        Problem("rosenbrock-5", Space(valley), _rosenbrock, 0.0, 20_000.0),
        Problem("conditional", Space(conditional), _conditional, 0.0, 3.0),
        # No whole number of units is at the minimum, so the smallest value is a little above it.
        Problem("categorical, log", Space(network), _network, 0.0, 3.0),
    )
