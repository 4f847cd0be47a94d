"""How busy this machine is."""

from __future__ import annotations

import os

_MOST = 8.0
"""Whoever waits that much longer has waited enough."""


def processes_per_core() -> float:
    """The processes that share a core now, so how many times longer a run takes; between 1 and 8."""
    try:
        load = os.getloadavg()[0]
    except OSError:  # a sandbox may hide it
        return 1.0
    return min(max(load / (os.cpu_count() or 1), 1.0), _MOST)
