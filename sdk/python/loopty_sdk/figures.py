"""Finite numbers: nothing else can be a score or a metric."""

from __future__ import annotations

import math
from numbers import Integral, Real


def finite_number(value: object, label: str) -> float:
    """The value as a plain int or float; numpy scalars are accepted.

    Raises TypeError for booleans and for anything that is no real number, ValueError for NaN and infinities.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{label} must be a number, not {value!r} ({type(value).__name__})")
    number = int(value) if isinstance(value, Integral) else float(value)
    try:
        is_finite = math.isfinite(number)
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise ValueError(f"{label} must be finite, not {value!r}: exit non-zero when nothing was measured")
    return number
