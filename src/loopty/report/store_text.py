"""The shared store in one line: where it is, and what waits for it."""

from __future__ import annotations

from loopty.report.figures import byte_size, plural


def store_line(place: str, unsent: int, unsent_bytes: int, fault: str) -> str:
    """What a person has to know about the store; `fault` says why things wait."""
    if not unsent:
        return f"{place}: it has everything"
    waits = "waits" if unsent == 1 else "wait"
    size = f" ({byte_size(unsent_bytes)})" if unsent_bytes else ""
    reason = f": {fault}" if fault else ""
    return f"{place}: {plural(unsent, 'content')}{size} {waits} for it{reason}"
