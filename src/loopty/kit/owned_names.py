"""Names that contain their owner process, so that the leftovers of dead processes can be found and removed."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from pathlib import Path

_PREFIX = "loopty"


def fresh_name(purpose: str = "") -> str:
    """A new name for something that this process creates; its purpose is one word, for people."""
    ours = prefix_of(os.getpid()).removeprefix(_PREFIX)
    return f"{_PREFIX}{f'-{purpose}' if purpose else ''}{ours}-{os.urandom(8).hex()}"


def prefix_of(pid: int) -> str:
    """The prefix of all names that a process owns. Raises OSError when the process is gone."""
    # With the start time, because pids are reused: field 20 after the name, which may contain anything.
    started = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    return f"{common_prefix()}-{pid}-{started}"


@functools.cache
def common_prefix() -> str:
    """The prefix of all names owned by processes that see each other."""
    # Containers that share their host's engine have pids of their own.
    return f"{_PREFIX}-{Path('/proc/self/ns/pid').stat().st_ino}"


def is_abandoned(name: str) -> bool:
    """Whether the owner of a name is gone; false also for names that are not loopty's."""
    if not name.startswith(_PREFIX):
        return False
    if (match := _owned_name().fullmatch(name)) is None:
        return False
    pid = int(match[2])
    try:
        with contextlib.suppress(PermissionError):
            os.kill(pid, 0)
        return match[1] != prefix_of(pid).removeprefix(_PREFIX)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        # A process of another user, on a machine that hides users from each other.
        return False


@functools.cache
def _owned_name() -> re.Pattern[str]:
    """Names as `fresh_name` makes them here; the groups are the owner and its pid."""
    ours = common_prefix().removeprefix(_PREFIX)
    return re.compile(rf"{_PREFIX}(?:-[a-z]+)?({ours}-(\d+)-\d+)-[0-9a-f]+", re.ASCII)
