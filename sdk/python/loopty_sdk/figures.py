"""Finite numbers: nothing else can be a score or a metric."""

from __future__ import annotations

import math


def finite_number(value: object, label: str) -> float:
    """The value as a plain int or float; numpy scalars are accepted.

    Raises TypeError for booleans and for anything that is no real number, ValueError for NaN and infinities.
    """
    number: float = value if type(value) is int or type(value) is float else _plain_number(value, label)
    try:
        is_finite = math.isfinite(number)
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise ValueError(f"{label} must be finite, not {value!r}: exit non-zero when nothing was measured")
    return number


def _plain_number(value: object, label: str) -> float:
    from numbers import Integral, Real

    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{label} must be a number, not {value!r} ({type(value).__name__})")
    return int(value) if isinstance(value, Integral) else float(value)
