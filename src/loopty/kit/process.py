"""This process: the user of its trials, its pauses, a child that outlives it, and what is done at its end."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

# As real root a trial could write /proc/sys/kernel/core_pattern, and RLIMIT_NPROC does not bind root, so root
# never starts a trial as itself. This number is in the range that systemd's table of users leaves unused (60578 to
# 61183): no login, service or dynamic user has it, unlike `nobody` (65534), which daemons and network file systems
# share. It is below 65536, so containers with mapped users know it.
_TRIAL_ID = 61000


def trial_owner() -> tuple[int, int] | None:
    """Return the uid and gid that must own what a trial may write, or None if trials run as the current user."""
    return (_TRIAL_ID, _TRIAL_ID) if os.geteuid() == 0 else None


@contextlib.contextmanager
def pause_collection() -> Iterator[None]:
    """Look for no garbage meanwhile: among a million nodes that stay to the end, that takes a second."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_functions: dict[Callable[[], None], None] = {}


def at_work_end(function: Callable[[], None]) -> None:
    """Call this function once when the process ends, newest first, however often it is given."""
    _functions[function] = None


@atexit.register
def end_work() -> None:
    """Do all that is left to do."""
    while _functions:
        function, _ = _functions.popitem()
        try:
            function()
        except Exception:  # noqa: BLE001 - as at the end of Python: the others are called, too
            sys.excepthook(*sys.exc_info())


def run_and_exit(run: Callable[[], None]) -> NoReturn:
    """Run this as the rest of the process. Exit functions run, streams are flushed; threads are not waited for."""
    os._exit(exit_status(run))


def exit_status(run: Callable[[], None]) -> int:
    """Run this and the exit functions to their end, flush the streams, and return the status to exit with."""
    status = 0
    try:
        run()
    except SystemExit as end:
        status = _status_of(end)
    except BaseException:  # noqa: BLE001 - the boundary of the process
        sys.excepthook(*sys.exc_info())
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            status = status or 120  # as Python itself exits when it cannot write the rest
    return status


def _status_of(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1


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
