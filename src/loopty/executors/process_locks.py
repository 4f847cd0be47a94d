"""Lock files show which processes are alive: a process holds its lock for as long as it lives.

A trial's owner is known by its lock, because a process number is not enough: the lock is free the moment its
holder dies, no matter who gets the number next, what the host is called or which container the process ran in.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os

from loopty.kit.process import at_work_end
from loopty.kit.safe_folder import SafeFolder


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
        """Say whether the process of this name is still running."""
        if self.has_died(owner):
            self._forget(_token(owner))
            return False
        return _token(owner) in self._descriptors or self._is_locked(owner) is not None

    def has_died(self, owner: str) -> bool:
        """Say whether there is a lock of this name, and no process holds it."""
        return _token(owner) not in self._descriptors and self._is_locked(owner) is False

    def _is_locked(self, owner: str) -> bool | None:
        """Say whether a process holds the lock of this name; None if there is no such lock."""
        try:
            # For reading: a lock needs no more, and the state may be read-only. Shared: two may look at once.
            descriptor = self._folder.file(_token(owner)).open(os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def exclude(self, owner: str) -> bool:
        """Say whether the process of this name is gone. A free lock means that it is, so it cannot come back."""
        return not self.is_alive(owner)

    def _release(self, token: str) -> None:
        self._forget(token)
        os.close(self._descriptors.pop(token))

    def _forget(self, token: str) -> None:
        with contextlib.suppress(OSError):
            self._folder.remove(token)


def _token(owner: str) -> str:
    return owner.rpartition(":")[2]
