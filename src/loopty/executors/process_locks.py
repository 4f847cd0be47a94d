"""Lock files show which processes are alive: a process holds its lock for as long as it lives.

A trial's owner is known by its lock, because a process number is not enough: the lock is free the moment its
holder dies, no matter who gets the number next, what the host is called or which container the process ran in.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import platform
from pathlib import Path


class ProcessLocks:
    """The processes that work on one ledger; each has its own lock file in this folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptors: dict[str, int] = {}

    def claim(self) -> str:
        """Lock a new file until this process ends; returns the name of this process, `host:pid:token`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        token = os.urandom(8).hex()
        path = self._folder / token
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptors[token] = descriptor
        atexit.register(path.unlink, missing_ok=True)
        return f"{platform.node()}:{os.getpid()}:{token}"

    def is_alive(self, owner: str) -> bool:
        """Whether the process of this name is still running."""
        token = owner.rpartition(":")[2]
        if token in self._descriptors:
            return True
        try:
            descriptor = os.open(self._folder / token, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            with contextlib.suppress(OSError):
                (self._folder / token).unlink()
            return False
        finally:
            os.close(descriptor)
