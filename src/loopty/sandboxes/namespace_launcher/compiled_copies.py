"""Start trials as copies of this process by the compiled library: only the commands themselves are in Python."""

# For Python 3.9 and newer.
from __future__ import annotations

import ctypes
import os

from loopty.sandboxes.namespace_launcher.command_copy import CommandCopy
from loopty.sandboxes.namespace_launcher.command_line import CommandLine
from loopty.sandboxes.namespace_launcher.large_pages import LargePages
from loopty.sandboxes.namespace_launcher.launch_order import CommandOrder, read_command_order
from loopty.sandboxes.namespace_launcher.threads_after_fork import ThreadsAfterFork

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket


class CompiledCopies:
    """The library, loaded into a warm process."""

    def __init__(self, order: int, library: int, token: int, program: int) -> None:
        """Load it, before what commands import. Raises OSError or AttributeError when it does not fit to Python.

        All are open files: what is the same for all trials, the library, what its calls need and Python's memory
        must not have, and the compiled launcher.
        """
        self._files = order, token, program
        # With the interpreter's lock: the copy goes on with it.
        functions = ctypes.PyDLL(f"/proc/self/fd/{library}")
        self._large_pages = LargePages(functions)
        self._note_libraries = functions.note_libraries
        for function in (functions.prepare_short_exit, self._note_libraries):
            function.restype = None
        functions.prepare_short_exit()
        self._serve = functions.serve_copies
        line = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p)
        self._serve.argtypes = (*4 * (ctypes.c_int,), *line)
        self._before_fork = ctypes.pythonapi.PyOS_BeforeFork
        self._after_fork = ctypes.pythonapi.PyOS_AfterFork_Child
        for function in (self._before_fork, self._after_fork):
            function.restype = None
        os.close(library)

    def serve(self, channel: _socket.socket, command: CommandCopy) -> CommandOrder:
        """Say that this process is ready, and start copies until the channel is closed; returns in copies only."""
        number, line = channel.detach(), CommandLine()
        text = line.filled_with(command.line)
        self._note_libraries()
        self._large_pages.use()
        threads = ThreadsAfterFork()
        # Once: nothing in Python happens in this process from here on.
        self._before_fork()
        trial_order = self._serve(number, *self._files, line.start, text, len(text), command.name)
        self._after_fork()
        threads.restore()
        return read_command_order(trial_order)
