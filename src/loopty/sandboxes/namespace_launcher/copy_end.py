"""The end of a copy: all that an interpreter does, but modules that were shared are not taken apart."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import sys
from types import ModuleType

_FLUSH_FAILED = 120
_SHARED_IN_A_ROW = 20


class CopyEnd:
    """Ends a copy; made in the warm process."""

    def __init__(self, shared: frozenset[int]) -> None:
        """`shared` are the identities of modules that stay as they are."""
        self._shared = shared
        # With the interpreter's lock: threads that go on must not run Python any more.
        self._exit = ctypes.PyDLL(None).exit

    def end_process(self, code: int) -> None:
        """End this process with an exit code, after everything that an interpreter does for a program.

        It waits for threads, calls exit functions, removes what the program's own modules hold, flushes the
        outputs and calls the exit functions of C libraries. Taking apart all other modules takes ten times as
        long.
        """
        if (threading := sys.modules.get("threading")) is not None:
            threading._shutdown()
        atexit._run_exitfuncs()
        code = code if _flush() else _FLUSH_FAILED
        _clear_modules(self._shared)
        gc.collect()
        _flush(reports=False)
        self._exit(code & 0xFF)


def _flush(*, reports: bool = True) -> bool:
    """Whether everything that was printed could be written."""
    is_flushed = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException as error:  # noqa: BLE001 - a stream may be any object of the program
            is_flushed = False
            with contextlib.suppress(Exception):
                if reports:
                    sys.stderr.write(f"Exception ignored in: {stream!r}\n{type(error).__qualname__}: {error}\n")
    return is_flushed


def _clear_modules(shared: frozenset[int]) -> None:
    """Remove what the modules hold that the program has loaded, `__main__` first, as an interpreter does."""
    for module in [sys.modules.get("__main__"), *_program_modules(shared)]:
        content = getattr(module, "__dict__", None)
        if type(module) is not ModuleType or content is None:
            continue
        for is_private in (True, False):
            for key in list(content):
                if key.startswith("_") is is_private and key != "__builtins__":
                    content[key] = None


def _program_modules(shared: frozenset[int]) -> list[object]:
    """The modules that were loaded since the copy began, newest first."""
    found: list[object] = []
    in_a_row = 0
    for name in reversed(sys.modules):
        # By identity: a program may give any name to any module.
        if id(module := sys.modules[name]) not in shared:
            found.append(module)
            in_a_row = 0
        elif (in_a_row := in_a_row + 1) == _SHARED_IN_A_ROW:
            # All before them are shared, and a look at each would copy the memory in which it is.
            break
    return found
