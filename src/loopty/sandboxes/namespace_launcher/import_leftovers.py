"""What imports may not leave behind in a warm process, because all trials would share it."""

# Without pathlib: a command finds loaded what this process has loaded. For Python 3.9 and newer.
# ruff: noqa: PTH109, PTH115, PTH123, PTH208
from __future__ import annotations

import _signal
import os

_TEMPORARY = ("/tmp", "/tmp/home", "/dev/shm")
_STANDARD = (0, 1, 2)


class ImportLeftovers:
    """Compares what a process has with what it had before its imports."""

    def __init__(self) -> None:
        self._files = _temporary_files()
        self._descriptors = _open_descriptors()
        self._folder = os.getcwd()

    def find(self) -> str:
        """What is left that cannot be shared, or an empty text."""
        # Packages with threads of their own, such as OpenBLAS, end them before a fork and start them when needed.
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        if len(os.listdir("/proc/self/task")) > 1:
            return "an import starts a thread"
        if {int(name) for name in os.listdir("/proc") if name.isdecimal()} - {1, os.getpid()}:
            return "an import starts a process"
        if opened := sorted(_open_descriptors() - self._descriptors):
            return f"an import leaves a file open ({os.readlink(f'/proc/self/fd/{opened[0]}')})"
        if made := sorted(_temporary_files() - self._files):
            return f"an import writes a file ({made[0]})"
        with open("/proc/self/maps", "rb") as maps:
            if any(line.split(maxsplit=2)[1][1:4:2] == b"ws" for line in maps):
                return "an import shares memory between processes"
        if _signal.getsignal(_signal.SIGCHLD) != _signal.SIG_DFL:
            return "an import handles the signal SIGCHLD"
        return "" if os.getcwd() == self._folder else "an import changes the current folder"


def _open_descriptors() -> set[int]:
    """The open descriptors besides the standard ones."""
    opened = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # the descriptor of the list itself
        opened.add(int(name))
    return opened - set(_STANDARD)


def _temporary_files() -> set[str]:
    return {f"{folder}/{name}" for folder in _TEMPORARY for name in os.listdir(folder)}
