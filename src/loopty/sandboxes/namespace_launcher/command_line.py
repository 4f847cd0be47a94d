"""The words by which a process was started, as others see them in /proc."""

from __future__ import annotations

import ctypes

from loopty.sandboxes.raw_calls import prctl

_ARGUMENTS_START, _ARGUMENTS_END = 45, 46
_PR_SET_NAME = 15


class CommandLine:
    """The command line of this process and, in their own memory, of its copies."""

    def __init__(self) -> None:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - without pathlib, see the other modules
            fields = file.read().rpartition(b")")[2].split()
        self._start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_END])
        self._size = end - self._start

    def replace(self, words: bytes, name: bytes) -> None:
        """Show other words, as many as there is room for, and another name of the process."""
        # The last byte stays zero: the kernel reads on otherwise.
        ctypes.memmove(self._start, words[: self._size - 1].ljust(self._size, b"\0"), self._size)
        text = ctypes.create_string_buffer(name)
        prctl(_PR_SET_NAME, ctypes.addressof(text))
