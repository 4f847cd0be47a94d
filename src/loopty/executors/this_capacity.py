"""The cores and the memory that this process may use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from loopty.domain.round_size import Capacity

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def this_capacity() -> Capacity:
    """What the machine, or the container around us, has."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        memory = min(memory, int(_CGROUP_LIMIT.read_text()))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Capacity(cores or 1, memory >> 20)
