"""Start trials as copies of this process by the compiled library: only the commands themselves are in Python."""

# For Python 3.9 and newer.
from __future__ import annotations

import ctypes
import os

from loopty.sandboxes.namespace_launcher.command_copy import CommandCopy
from loopty.sandboxes.namespace_launcher.command_line import CommandLine
from loopty.sandboxes.namespace_launcher.launch_order import parse_trial_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket


class _Copy(ctypes.Structure):
    """What the library says in a copy: the text of the trial's order."""

    _fields_ = (("order", ctypes.c_void_p), ("size", ctypes.c_size_t))


class CompiledCopies:
    """The library, loaded into a warm process."""

    def __init__(self, library: int) -> None:
        """Load it from an open file. Raises OSError or AttributeError when it does not fit to this interpreter."""
        # With the interpreter's lock: the copy goes on with it.
        self._serve = ctypes.PyDLL(f"/proc/self/fd/{library}").serve_copies
        self._serve.argtypes = (*4 * (ctypes.c_int,), ctypes.POINTER(_Copy))
        self._before_fork = ctypes.pythonapi.PyOS_BeforeFork
        self._after_fork = ctypes.pythonapi.PyOS_AfterFork_Child
        for function in (self._serve, self._before_fork, self._after_fork):
            function.restype = None
        self._copy = _Copy()
        self._command_line = CommandLine()
        os.close(library)

    def serve(self, channel: _socket.socket, order: int, token: int, program: int) -> CommandCopy:
        """Say that this process is ready and start copies until loopty closes the channel; returns in copies only.

        `order`, `token` and `program` are open files: what is the same for all trials, what the library's calls
        need and Python's memory must not have, and the compiled launcher.
        """
        number = channel.detach()
        # Once: nothing in Python happens in this process from here on.
        self._before_fork()
        self._serve(number, order, token, program, ctypes.byref(self._copy))
        self._after_fork()
        text = ctypes.string_at(self._copy.order, self._copy.size)
        return CommandCopy(parse_trial_order(text), self._command_line)
