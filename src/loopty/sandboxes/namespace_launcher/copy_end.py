"""The end of a copy: all that an interpreter does, but modules that were shared are not taken apart."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterable
from types import ModuleType

_FLUSH_FAILED = 120


def end_process(code: int, shared: Iterable[ModuleType]) -> None:
    """End this process with an exit code, after everything that an interpreter does for a program.

    It waits for threads, calls exit functions, removes what the program's own modules hold, flushes the outputs
    and calls the exit functions of C libraries. Taking apart all other modules takes ten times as long.
    """
    if (threading := sys.modules.get("threading")) is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    code = code if _flush() else _FLUSH_FAILED
    _clear_modules(shared)
    gc.collect()
    _flush(reports=False)
    # With the interpreter's lock: threads that go on must not run Python any more.
    ctypes.PyDLL(None).exit(code & 0xFF)


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


def _clear_modules(shared: Iterable[ModuleType]) -> None:
    """Remove what the modules hold that the program has loaded, `__main__` first, as an interpreter does."""
    # By identity: a program may give any name to any module.
    kept = set(map(id, shared))
    names = ["__main__", *reversed([name for name in sys.modules if name != "__main__"])]
    for module in [sys.modules.get(name) for name in names]:
        content = getattr(module, "__dict__", None)
        if id(module) in kept or type(module) is not ModuleType or content is None:
            continue
        for is_private in (True, False):
            for key in list(content):
                if key.startswith("_") is is_private and key != "__builtins__":
                    content[key] = None
