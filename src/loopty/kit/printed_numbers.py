"""The numbers that a program prints with their names: lines like `accuracy: 0.93`."""

from __future__ import annotations

import re
from collections.abc import Iterable

NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NAMED = re.compile(rf"^\W*([A-Za-z][\w ./%()-]{{0,60}}?)\s*[:=]\s*({NUMBER})(?![\w.])")
_LONGEST_LINE = 1_000
_MOST_NAMES = 200


def named_numbers(lines: Iterable[str]) -> dict[str, float]:
    """The last number of each name, in the order in which the names came first."""
    named: dict[str, float] = {}
    for line in lines:
        if (match := _NAMED.match(line[:_LONGEST_LINE])) and (match[1] in named or len(named) < _MOST_NAMES):
            named[match[1]] = float(match[2])
    return named
