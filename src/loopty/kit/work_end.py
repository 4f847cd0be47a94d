"""What has to be done when a piece of work ends: with its process, or before its process begins another one."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable

_functions: dict[Callable[[], None], None] = {}
_last_functions: dict[Callable[[], None], None] = {}


def at_work_end(function: Callable[[], None]) -> None:
    """Call this function once when the work ends, newest first; a function that is there already stays alone."""
    _functions[function] = None


def at_process_end(function: Callable[[], None]) -> None:
    """Call this function once when the process ends, after its last work."""
    _last_functions[function] = None


def end_work() -> None:
    """Do all that is left to do for the work so far."""
    _call_all(_functions)


@atexit.register
def end_process() -> None:
    """Do all that is left to do for the last work and for the process."""
    end_work()
    _call_all(_last_functions)


def _call_all(functions: dict[Callable[[], None], None]) -> None:
    while functions:
        function, _ = functions.popitem()
        try:
            function()
        except Exception:  # noqa: BLE001 - as at the end of Python: the others are called, too
            sys.excepthook(*sys.exc_info())
