"""Runs a function in a process that outlives this one, its session and its host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from loopty.kit.quick_exit import exit_status


def run_detached(function: Callable[[], None], kept: tuple[int, ...] = ()) -> None:
    """Run this in a process of its own; of the open files, it has these descriptors alone.

    Call it before anything is opened that two processes must not share, such as a ledger.
    """
    if first := os.fork():
        os.waitpid(first, 0)
        return
    # Twice, and with a session of its own: some hosts kill the descendants of what they started.
    os.setsid()
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)
    os._exit(exit_status(function))
