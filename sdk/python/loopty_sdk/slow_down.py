"""Runs a command at about a third of its speed: `python3 -m loopty_sdk.slow_down COMMAND`.

Whatever grows then is a time: so `loopty init` finds out whether a score is one.
"""

from __future__ import annotations

import os
import signal
import sys

_RIVALS = 2
"""Processes that compete with the command for its only core."""


def main(line: str) -> int:
    """Run the shell line on one core beside its rivals, and return its exit code."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rivals = [_start_rival() for _ in range(_RIVALS)]
    try:
        status = os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", line], os.environ), 0)[1]
    finally:
        for rival in rivals:
            os.kill(rival, signal.SIGKILL)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _start_rival() -> int:
    parent = os.getpid()
    if child := os.fork():
        return child
    while os.getppid() == parent:  # it ends with its parent
        for _ in range(1_000_000):
            pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
