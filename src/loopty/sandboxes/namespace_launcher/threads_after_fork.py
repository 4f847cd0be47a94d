"""Spares copies of a warm process what `threading` does after a fork.

It makes every lock anew and forgets the other threads. Here there is one thread, and no lock is held: the work
would change nothing, but write to a hundred pages that the copy shares until then.
"""

# For Python 3.9 and newer.
from __future__ import annotations

import sys
from types import FunctionType, ModuleType


class ThreadsAfterFork:
    """Made in the warm process, after its imports."""

    def __init__(self) -> None:
        threading = sys.modules.get("threading")
        self._main_thread = None
        if threading is None or not _has_one_thread(threading):
            return
        hook = getattr(threading, "_after_fork", None)
        if isinstance(hook, FunctionType) and _is_original(hook):
            self._main_thread = threading.main_thread()
            self._hook, self._work = hook, hook.__code__
            # The interpreter keeps the function itself.
            hook.__code__ = _do_nothing.__code__

    def restore(self) -> None:
        """Let it happen again, in a copy: the command may fork, too."""
        if (thread := self._main_thread) is not None:
            self._hook.__code__ = self._work
            if hasattr(thread, "_set_native_id"):
                thread._set_native_id()


def _is_original(hook: FunctionType) -> bool:
    """Whether nothing has put its own function into this place."""
    return hook.__module__ == "threading" and not hook.__code__.co_freevars


def _has_one_thread(threading: ModuleType) -> bool:
    try:
        known = {*threading._active.values(), *threading._limbo, *threading._dangling}
    except AttributeError:
        return False  # another version of it
    return known == {threading.main_thread()}


def _do_nothing() -> None:
    """In the place of the work."""
