"""Who owns a trial: this process, told apart from a later one with the same number."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def this_process() -> str:
    return f"{platform.node()}:{_boot()}:{os.getpid()}:{_started(os.getpid())}"


def alive(owner: str) -> bool:
    """Whether the process that this names still runs. One on another machine is believed to."""
    host, boot, pid, started = owner.rsplit(":", 3)
    if host != platform.node():
        return True
    if boot != _boot():
        return False
    return _started(int(pid)) == started


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "-"


def _started(pid: int) -> str:
    """When the process began, in ticks since boot; empty when there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "" if Path("/proc/self").exists() else _signalled(pid)
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _signalled(pid: int) -> str:
    """Without /proc: whether a process of this number can be signalled is all there is to know."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "?"
    return "?"
