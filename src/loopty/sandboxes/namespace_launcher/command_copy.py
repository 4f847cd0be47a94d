"""A trial that starts as a copy of a warm process: its first process, and the copy that becomes its command."""

# Without pathlib: a command finds loaded what this process has loaded. For Python 3.9 and newer.
# ruff: noqa: PTH109, PTH118, PTH119, PTH120
from __future__ import annotations

import _signal
import _socket
import io
import os
import sys
from types import ModuleType

from loopty.sandboxes.namespace_launcher.command_line import CommandLine
from loopty.sandboxes.namespace_launcher.copy_end import CopyEnd
from loopty.sandboxes.namespace_launcher.launch_order import (
    TITLE,
    CommandOrder,
    LauncherOrder,
    TrialOrder,
    WarmOrder,
)
from loopty.sandboxes.namespace_launcher.namespace_calls import filter_calls
from loopty.sandboxes.namespace_launcher.root_files import copied_root
from loopty.sandboxes.namespace_launcher.trial_process import TrialProcess, write_identity
from loopty.sandboxes.namespace_launcher.warm_imports import WarmImports, has_first_folder
from loopty.sandboxes.raw_calls import PR_SET_DUMPABLE, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_FIRST_OTHER = 3
_NO_SCRIPT = 2
_INTERRUPTED = 128 + _signal.SIGINT


class CopyStarted(BaseException):
    """Leaves everything that the warm process does: this process is the command of a trial now."""

    def __init__(self, order: CommandOrder) -> None:
        super().__init__()
        self.order = order


class TrialCopy(TrialProcess):
    """The first process of a trial, in the user namespace that was made for it."""

    def __init__(
        self,
        shared: LauncherOrder,
        parent: int,
        connection: _socket.socket,
        command_line: CommandLine,
        command: CommandCopy,
    ) -> None:
        super().__init__(shared, copied_root(shared.system), parent, connection)
        self._command_line = command_line
        self._command = command
        self._identity = shared.uid, shared.gid
        self._copy_filter = shared.copy_filter
        self._socket = connection

    def run(self) -> None:
        """Carry out the order that comes over the connection; raises CopyStarted in the copy, never returns."""
        is_command = False
        try:
            uid, gid = self._identity
            # A terminal needs a user 0.
            write_identity(0, uid, 0, gid)
            prctl(PR_SET_DUMPABLE, 0)
            self._command_line.replace(TITLE, TITLE)
            self.carry_out()
        except CopyStarted:
            is_command = True
            raise
        finally:
            if not is_command:
                os._exit(1)

    def start_command(self, order: TrialOrder, outputs: list[int]) -> int:
        """Fork the copy that becomes the command."""
        if (call_filter := self._copy_filter) is not None:
            filter_calls(call_filter)
        # Not a bare system call: the C library and packages put themselves in order after this one.
        if (pid := os.fork()) == 0:
            self._socket.detach()
            _signal.set_wakeup_fd(-1)
            _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
            _take_descriptors(outputs)
            prctl(PR_SET_DUMPABLE, 1)
            self._command_line.replace(self._command.line, self._command.name)
            raise CopyStarted(CommandOrder(order.argv, order.cwd, order.env))
        return pid


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
        imports.set_environment({**order.env, "PWD": order.cwd})
        place = _first_search_folder(self._words)
        if imports.is_covered(place):
            # A file of the trial has the name of a module that the copy has: then it starts as any other command.
            os.execvp(order.argv[0], order.argv)
        imports.prepare(place)
        self._end.end_process(_run(self._words))


def _take_descriptors(outputs: list[int]) -> None:
    first, second = outputs
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (first, 1), (second, 2)):
        os.dup2(source, target)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) >= _FIRST_OTHER:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the list itself


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
