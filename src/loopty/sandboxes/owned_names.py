"""Names that tell which process made a thing, so that what the dead have left can be found and removed."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

_PREFIX = "loopty"


def fresh_name() -> str:
    """A name for something that this process makes."""
    return f"{prefix_of(os.getpid())}-{secrets.token_hex(8)}"


def prefix_of(pid: int) -> str:
    """How the names of what a process has made begin; OSError when it is gone."""
    # The start time, because numbers of processes are used again: the 20th after a name that may hold anything.
    started = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    return f"{shared_prefix()}-{pid}-{started}"


def shared_prefix() -> str:
    """How all names begin that are made by processes which see each other."""
    # Containers that share their host's engine have process numbers of their own.
    return f"{_PREFIX}-{Path('/proc/self/ns/pid').stat().st_ino}"


def is_abandoned(name: str) -> bool:
    """Whether the process that a name tells of is gone; false as well of names that are not ours."""
    match = re.fullmatch(rf"{shared_prefix()}-(\d+)-\d+-[0-9a-f]+", name)
    if match is None:
        return False
    pid = int(match[1])
    try:
        with contextlib.suppress(PermissionError):
            os.kill(pid, 0)
        return not name.startswith(f"{prefix_of(pid)}-")
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        # Another user's, on a machine that hides users from each other.
        return False
