"""NaN and the infinities as programs print them."""

from __future__ import annotations

import math
import re

_NAMED = re.compile(
    r"^\W*?(?:(?P<name>[A-Za-z][\w ./%()-]{0,60}?)[\"']?\s*[:=]\s*)?(?P<value>[-+]?(?:nan|inf(?:inity)?))\W*$",
    re.IGNORECASE,
)


def printed_not_finite(line: str) -> tuple[str, float] | None:
    """The name, if any, and the number of a line such as `score: nan`; None for any other line."""
    found = _NAMED.match(line[:1_000])
    return (found["name"] or "", float(found["value"])) if found else None


def not_finite_text(value: float) -> str:
    """What such a number is called."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
