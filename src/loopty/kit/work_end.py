"""What has to be done when the work of this process ends."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable

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
