"""A time on the command line, with its unit: 90s, 12h, 14d."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class TimeSpan(click.ParamType[float]):
    """A number with a unit; the value is in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", str(value))
        if not found:
            self.fail(f"{value!r} is no time: write 90s, 30m, 12h or 14d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]
