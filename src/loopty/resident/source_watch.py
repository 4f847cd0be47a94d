"""Whether the source of this process has changed since it was imported: by an upgrade or an edit.

The kernel says when something happens in the folders of the source, so that a verb need not look at hundreds of
files.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

_ANY_CHANGE = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""Of files and names in a folder (inotify(7)): written, touched, moved, made or removed."""
_LOOK_SECONDS = 10.0
"""How often the files are looked at in any case: of some file systems, the kernel does not see every change."""


class SourceWatch:
    """The files of the modules that this process has imported so far."""

    def __init__(self) -> None:
        paths = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        self._files = {path: _state(path) for path in dict.fromkeys(filter(None, paths))}
        self._events: int | None = None
        self._next_look = 0.0

    def start(self) -> None:
        """Let the kernel watch. Without this, or where it cannot, each question looks at every file."""
        self._events = _watch({os.path.dirname(path) for path in self._files})

    def has_changed(self) -> bool:
        is_quiet = self._events is not None and not _has_events(self._events)
        if is_quiet and time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + _LOOK_SECONDS
        return any(_state(path) != state for path, state in self._files.items())


def _watch(folders: set[str]) -> int | None:
    """A descriptor that can be read when something happens in these folders; None where there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    events: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if events < 0:
        return None
    for folder in folders:
        if libc.inotify_add_watch(events, os.fsencode(folder), _ANY_CHANGE) < 0:
            os.close(events)  # the user may have no more watches
            return None
    return events


def _has_events(events: int) -> bool:
    """Whether something has happened since the last question."""
    found = False
    try:
        while os.read(events, 1 << 16):
            found = True
    except BlockingIOError:
        pass
    return found


def _state(path: str) -> tuple[int, int]:
    """When a file was written, and its size; no file has those of a missing one."""
    try:
        status = os.stat(path)
    except OSError:
        return -1, -1
    return status.st_mtime_ns, status.st_size
