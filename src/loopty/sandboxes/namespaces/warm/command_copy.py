"""The command of a trial that is a copy of a warm process, and its end: modules that were shared are not taken
apart.
"""

# Without pathlib: a command finds loaded what this process has loaded. For Python 3.9 and newer.
# ruff: noqa: PTH109, PTH118, PTH119, PTH120

from __future__ import annotations

import _signal
import atexit
import contextlib
import ctypes
import gc
import io
import os
import sys
from types import ModuleType

from loopty.sandboxes.namespaces.launch_order import CommandOrder, WarmOrder
from loopty.sandboxes.namespaces.warm.imports import WarmImports, has_first_folder

TYPE_CHECKING = False


if TYPE_CHECKING:
    from types import TracebackType


_NO_SCRIPT = 2
_INTERRUPTED = 128 + _signal.SIGINT


class CommandCopy:
    """The command of all copies of a warm process, with what that has imported.

    Made before there is a copy: whatever a copy changes becomes memory of its own.
    """

    def __init__(self, imports: WarmImports, order: WarmOrder) -> None:
        self._imports = imports
        self._words = words = order.arguments
        self.line = b"\0".join(os.fsencode(word) for word in (*order.interpreter, *words))
        """What others see in /proc."""
        self.name = os.path.basename(os.fsencode(order.interpreter[0]))
        self._end = CopyEnd(imports.module_identities)
        sys.argv = ["-c", *words[2:]] if words[0] == "-c" else [*words]
        if hasattr(sys, "orig_argv"):  # since Python 3.10
            sys.orig_argv = [*order.interpreter, *words]

    def become(self, order: CommandOrder) -> None:
        """Become the command, as if the interpreter had just started it; does not return."""
        imports = self._imports
        imports.set_environment(order.env, order.unset)
        place = _first_search_folder(self._words)
        if imports.is_covered(place):
            # A file of the trial has the name of a module that the copy has: then it starts as any other command.
            os.execvp(order.argv[0], order.argv)
        imports.prepare(place)
        self._end.end_process(_run(self._words))


def _first_search_folder(command: tuple[str, ...]) -> str | None:
    """Return the folder that the interpreter puts before all others that it imports from, or None."""
    if not has_first_folder():
        return None
    if command[0] == "-c":
        return ""
    return os.getcwd() if command[0] == "-m" else os.path.dirname(os.path.realpath(command[0]))


def _run(command: tuple[str, ...]) -> int:
    """Run the command as `__main__`; returns its exit code."""
    main, before = ModuleType("__main__"), sys.modules["__main__"]
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    # A module has no annotations at its start since Python 3.14.
    main.__dict__.update({name: {} for name in ("__annotations__",) if name in before.__dict__})
    sys.modules["__main__"] = main
    try:
        if command[0] == "-m":
            import runpy

            sys.argv = list(command[1:])
            runpy._run_module_as_main(command[1])  # type: ignore[attr-defined] # what `python -m` calls
        else:
            _run_text(command, main)
    except SystemExit as end:
        return _exit_code(end)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does with any error of a program
        trace = _without_own_frames(error)
        # The interpreter prints the traceback that belongs to the error.
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _run_text(command: tuple[str, ...], main: ModuleType) -> None:
    if command[0] == "-c":
        text, name = command[1].encode(), "<string>"
    else:
        name = os.path.join(os.getcwd(), command[0].removeprefix("./"))
        from importlib.machinery import SourceFileLoader

        main.__dict__.update(__file__=name, __cached__=None, __loader__=SourceFileLoader("__main__", name))
        try:
            with io.open_code(name) as file:
                text = file.read()
        except OSError as error:
            words = f"can't open file {name!r}: [Errno {error.errno}] {error.strerror}"
            sys.stderr.write(f"{sys.executable}: {words}\n")
            raise SystemExit(_NO_SCRIPT) from None
    exec(compile(text, name, "exec", dont_inherit=True), main.__dict__)


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1


def _without_own_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error without the frames of this module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return trace


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
        # An interpreter takes the shared ones apart, too: 15 ms with numpy.
        _clear_modules(self._shared)
        gc.collect()
        _flush(reports=False)
        self._exit(code & 0xFF)


def _flush(*, reports: bool = True) -> bool:
    """Say whether everything that was printed could be written."""
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
    """List the modules that were loaded since the copy began, newest first."""
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
