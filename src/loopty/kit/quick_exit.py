"""Ends a process without taking Python apart: freeing four hundred modules is a tenth of a short verb."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import NoReturn


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
