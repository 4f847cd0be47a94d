"""Units of time and of throughput: what a number with one says about an operation, and which values are better."""

from __future__ import annotations

import re

from loopty.domain.objective import Direction
from loopty.kit.records import Record

SECONDS = {
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecs", "micros", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("ps", "picosecond", "picoseconds"), 1e-12),
}
"""Units of time, in seconds. `µ` and `μ` are two characters: the sign of micro, and a letter of Greek."""
_RATE_WORDS = {
    "hz": "ops/s",
    "khz": "kops/s",
    "mhz": "Mops/s",
    "rps": "req/s",
    "qps": "queries/s",
    "fps": "frames/s",
}
_UNIT = re.compile(r"([^\W\d_]{1,16})[ \t]*(?:/|per\b)[ \t]*([^\W\d_]{1,16})")
_FACTORS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_BYTES = re.compile(r"([kKMGT]?)(i?)(?:[bB]|bytes?|Bytes?|bits?)")
_OPERATIONS = re.compile(
    r"([kKMGB]?)(?:ops?|it|its|iter|iters|iterations?|operations?|calls?|runs?|loops?|req|reqs|requests?|queries"
    r"|rows?|items?|docs?|documents?|messages?|msgs?|events?|lines?|files?|frames?|steps?|samples?|tokens?|records?"
    r"|samples?|rounds?|cycles?|elements?|elem|objects?|keys?|games?|nodes?|lookups?|images?|txs?|tx)"
)


class Measured(Record):
    """A number with its unit."""

    value: float
    """In seconds, operations per second or bytes per second."""
    is_rate: bool = False
    is_bytes: bool = False
    """Whether it is a rate of bytes: no one knows how long one operation takes then."""

    @property
    def direction(self) -> Direction:
        """Say which values are better: a short time, a high rate."""
        return Direction.MAX if self.is_rate else Direction.MIN


class OperationSeconds(Record):
    """How long one operation takes, and whether that was told as a rate."""

    seconds: float
    is_rate: bool


def measured(value: str, unit: str) -> Measured | None:
    """Read a number and its unit, as `12.3` and `ms/op`; None if the unit is neither a time nor a rate."""
    number, unit = float(value.replace(",", "").replace("_", "") or "nan"), unit.strip().strip("()")
    if unit in SECONDS:
        return Measured(number * SECONDS[unit])
    found = _UNIT.fullmatch(_RATE_WORDS.get(unit.lower(), unit))
    if found is None:
        return None
    counted, per = found.groups()
    if counted in SECONDS and per not in SECONDS:  # ms/op
        return Measured(number * SECONDS[counted])
    if per not in SECONDS:
        return None
    if amount := _BYTES.fullmatch(counted):
        base = 1024.0 if amount[2] else 1000.0
        power = " kMGT".index(amount[1].replace("K", "k") or " ")
        return Measured(number * base**power / SECONDS[per], is_rate=True, is_bytes=True)
    if operations := _OPERATIONS.fullmatch(counted):
        return Measured(number * _FACTORS.get(operations[1], 1.0) / SECONDS[per], is_rate=True)
    return None


def operation_seconds(value: str, unit: str) -> OperationSeconds | None:
    """Read how long one operation takes; None if the text does not say it, or says that none was done."""
    found = measured(value, unit)
    if found is None or found.is_bytes or (found.is_rate and found.value <= 0):
        return None
    return OperationSeconds(1 / found.value if found.is_rate else found.value, found.is_rate)
