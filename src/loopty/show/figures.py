"""Numbers, times, names and changes as people and shells read them."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Mapping

from loopty.domain.errors import Misuse
from loopty.domain.ids import handle_name
from loopty.domain.space import Value


def figure(value: float) -> str:
    """Format six significant digits, without an exponent if possible."""
    return without_minus_zero(f"{value:.0f}" if 1e6 <= abs(value) < 1e12 else f"{value:.6g}")


def without_minus_zero(text: str) -> str:
    """Drop the number's sign if only zeros are left of it."""
    return text.removeprefix("-") if not any(digit in text for digit in "123456789in") else text


def value_text(value: Value | None, digits: int = 6) -> str:
    """Format a parameter's value as a task file has it; a number with at most this many significant digits."""
    if isinstance(value, float):
        return without_minus_zero(f"{value:.{digits}g}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def rough_figure(value: float) -> str:
    """Format three significant digits with a sign, for values that are known only with an interval."""
    return sign(value) + three_digits(abs(value))


def three_digits(value: float) -> str:
    """Format three significant digits."""
    return figure(float(f"{value:.3g}"))


def deviation(sigma: float, share: float | None) -> str:
    """`± 0.8 %`, or in the metric's unit if there is no percentage."""
    return f"± {three_digits(sigma)}" if share is None else f"± {percent(share)} %"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02} h"


def moment(at: float) -> str:
    """Format local month, day and time of this many seconds since the epoch."""
    return time.strftime("%m-%d %H:%M", time.localtime(at))


def rate(per_second: float) -> str:
    """`12.5 trials/min`, in the unit that gives a readable number."""
    unit, seconds = ("s", 1) if per_second >= 1 else ("min", 60) if per_second >= 1 / 60 else ("h", 3600)
    return f"{per_second * seconds:.1f} trials/{unit}"


def dollars(amount: float) -> str:
    """Format dollars and cents; two or four more digits for small amounts."""
    return f"${amount:,.2f}" if amount >= 0.1 or not amount else f"${amount:.{4 if amount >= 0.001 else 6}f}"


def byte_size(count: int) -> str:
    """`512 B`, `1.4 MB`."""
    size, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if size >= 100 or unit == "B" else f"{size:.1f} {unit}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(share: float) -> str:
    """Format the size of a share in percent, without its sign."""
    size = abs(share)
    if size >= 1e6:
        return three_digits(size)
    if size >= 1000:
        return f"{size:,.0f}"
    return f"{size:.1f}" if size >= 0.1 or size == 0 else f"{size:.2g}"


def signed_percent(share: float) -> str:
    """`+2.5 %`."""
    return f"{sign(share)}{percent(share)} %"


def sign(value: float) -> str:
    return "+" if value >= 0 else "-"


def node_name(node: str, handle: int) -> str:
    """`@95`; the id where a node has no handle here: an artifact's node is of another ledger."""
    return handle_name(handle) if handle else str(node)


_PREFIX = "PARAM_"
"""So that no parameter of a stranger's task sets PATH, LD_PRELOAD or the like."""


def shell_assignments(params: Mapping[str, Value]) -> str:
    """Return one line for each parameter, `PARAM_LR=0.03`, safe to `eval`."""
    names: dict[str, str] = {}
    for name in params:
        variable = _PREFIX + re.sub(r"\W", "_", name, flags=re.ASCII).upper()
        if variable in names:
            raise Misuse(f"parameters {names[variable]} and {name} are both {variable} in a shell: use --json")
        names[variable] = name
    return "\n".join(f"{variable}={_quote(params[name])}" for variable, name in names.items())


def _quote(value: Value) -> str:
    return shlex.quote(value if isinstance(value, str) else json.dumps(value))


def store_line(place: str, unsent: int, unsent_bytes: int, fault: str) -> str:
    """Say what a person has to know about the store; `fault` says why things wait."""
    if not unsent:
        return f"{place}: it has everything"
    waits = "waits" if unsent == 1 else "wait"
    size = f" ({byte_size(unsent_bytes)})" if unsent_bytes else ""
    reason = f": {fault}" if fault else ""
    return f"{place}: {plural(unsent, 'content')}{size} {waits} for it{reason}"
