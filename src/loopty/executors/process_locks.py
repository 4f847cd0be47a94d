"""Lock files show which processes are alive: a process holds its lock for as long as it lives.

A trial's owner is known by its lock, because a process number is not enough: the lock is free the moment its
holder dies, no matter who gets the number next, what the host is called or which container the process ran in.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os

from loopty.kit.safe_folder import SafeFolder
from loopty.kit.work_end import at_work_end


class ProcessLocks:
    """The processes that work on one ledger; each has its own lock file in this folder."""

    def __init__(self, folder: SafeFolder) -> None:
        self._folder = folder
        self._descriptors: dict[str, int] = {}

    def claim(self) -> str:
        """Lock a new file until this work or process ends; returns the name of its owner, `host:pid:token`."""
        token = os.urandom(8).hex()
        descriptor = self._folder.file(token).open(os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptors[token] = descriptor
        at_work_end(functools.partial(self._release, token))
        return f"{os.uname().nodename}:{os.getpid()}:{token}"

    def is_alive(self, owner: str) -> bool:
        """Whether the process of this name is still running."""
        token = owner.rpartition(":")[2]
        if token in self._descriptors:
            return True
        try:
            # For reading: a lock needs no more, and the state may be read-only.
            descriptor = self._folder.file(token).open(os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            self._forget(token)
            return False
        finally:
            os.close(descriptor)

    def _release(self, token: str) -> None:
        self._forget(token)
        os.close(self._descriptors.pop(token))

    def _forget(self, token: str) -> None:
        with contextlib.suppress(OSError):
            self._folder.remove(token)
