"""The command of a trial that is a copy of a warm process."""

# Without pathlib: a command finds loaded what this process has loaded. For Python 3.9 and newer.
# ruff: noqa: PTH109, PTH118, PTH119, PTH120
from __future__ import annotations

import _signal
import io
import os
import sys
from types import ModuleType

from loopty.sandboxes.namespace_launcher.copy_end import CopyEnd
from loopty.sandboxes.namespace_launcher.launch_order import CommandOrder, WarmOrder
from loopty.sandboxes.namespace_launcher.warm_imports import WarmImports, has_first_folder

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
    """The folder that the interpreter puts before all others that it imports from, or None."""
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
    """The traceback of an error without the frames of this module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return trace
