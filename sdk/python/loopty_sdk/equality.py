"""Whether two values are the same, at any depth, and how to show them in one line."""

from __future__ import annotations

import itertools
import math
from typing import Any

_LONGEST_SHOWN = 120


def are_equal(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two values are equal at any depth, numbers within the tolerance; NaN equals NaN."""
    if hasattr(one, "tolist") or hasattr(other, "tolist"):
        shapes = [getattr(value, "shape", None) for value in (one, other)]
        if None not in shapes and shapes[0] != shapes[1]:
            return False
        one, other = (value.tolist() if hasattr(value, "tolist") else value for value in (one, other))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(are_equal, one, other, itertools.repeat(tolerance)))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(one[key], other[key], tolerance) for key in one)
    numbers = (int, float, complex)
    if (
        isinstance(one, numbers)
        and isinstance(other, numbers)
        and isinstance(one, bool) is isinstance(other, bool)
    ):
        return one == other or _are_close(complex(one), complex(other), tolerance)
    return type(one) is type(other) and bool(one == other)


def _are_close(one: complex, other: complex, tolerance: float) -> bool:
    pairs = ((one.real, other.real), (one.imag, other.imag))
    if any(math.isnan(number) for pair in pairs for number in pair):
        return all(math.isnan(a) is math.isnan(b) and (math.isnan(a) or a == b) for a, b in pairs)
    return tolerance > 0 and all(math.isclose(*pair, rel_tol=tolerance, abs_tol=tolerance) for pair in pairs)


def short_repr(value: Any) -> str:
    """The value in one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
