"""The folders of trials on disk: an inbox with the parameters, an outbox with the folders that a benchmark fills.

To make eight files and folders and to remove them can take a tenth of a short trial: ext4 looks for inodes that
were not freed just now. So a session uses a trial's folder again, but nothing in it that a trial may have touched:
the outbox is new, and a folder inside it is taken over only if its `ctime`, which nobody can set, is still what it
was before the trial.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from loopty.kit.process import at_work_end
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder

_INSIDE = ("traces", "checkpoint", "artifacts")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_COARSEST_NS = 20_000_000
"""File systems date changes by a clock that steps every ten milliseconds at least."""
_SECOND_NS = 1_000_000_000
"""A date of whole seconds comes from a file system that has no finer ones."""
_MOST_IDLE = 8

IN_USE: set[str] = set()
"""The names of the folders that this process uses now: one before it may have had the same pid."""

Identity = tuple[int, int]
"""Which folder it is, and when it was last changed."""


class _Idle(Record):
    """A folder that waits for the next trial."""

    name: str
    inside: Mapping[str, Identity]


class TrialFolders:
    """The folders of the trials of one process. Use it from one thread at a time."""

    def __init__(self, trials: SafeFolder, owner: tuple[int, int] | None, keeps: bool) -> None:
        """`owner` is the user and the group of the trials; `keeps`: nothing of a trial lives on after its end."""
        self._trials = trials
        self._owner = owner
        self._keeps = keeps
        self._ended = 0
        self._idle: deque[_Idle] = deque()
        self._inside: dict[str, Mapping[str, Identity]] = {}
        """The folders in the outboxes of running trials, by the names of their folders, as they were before."""

    def make(self, folder: SafeFolder, parameters: bytes) -> None:
        """Make the folder of a trial, or take over one that waits."""
        IN_USE.add(folder.name)
        # On ext4 a new inode costs up to half a millisecond while others are freed, and a trial needs eight.
        if self._idle and self._is_settled(self._idle[0]):
            idle = self._idle.popleft()
            try:
                self._take_over(idle, folder, parameters)
                return
            except OSError:
                self._trials.remove(idle.name)
        folder.remove_all()  # a process may have died before it recorded anything
        folder.below("in").write_files({"params.json": parameters})
        with folder.below("out").handle(make=True) as outbox:
            self._fill(outbox)

    def _is_settled(self, idle: _Idle) -> bool:
        """Say whether any change from now on gets another date than the last one."""
        now = time.time_ns()
        dates = [changed_at for _, changed_at in idle.inside.values()]
        return all(date % _SECOND_NS and now - date > _COARSEST_NS for date in dates)

    def _take_over(self, idle: _Idle, folder: SafeFolder, parameters: bytes) -> None:
        self._trials.rename(idle.name, folder.name)
        IN_USE.discard(idle.name)
        folder.below("in").file("params.json").overwrite(parameters)
        self._inside[folder.name] = idle.inside

    def empty(self, outbox: SafeFolder) -> None:
        """Leave nothing in an outbox but its folders, before the next launch of the same trial."""
        with outbox.handle() as handle:
            for name in os.listdir(handle):  # noqa: PTH208
                outbox.remove(name)
            self._fill(handle)

    def end(self, folder: SafeFolder) -> None:
        """Remove the folder of a trial, or let it wait for the next one."""
        inside = self._inside.pop(folder.name, {})
        self._ended += 1
        # The first trial may be the only one.
        if self._keeps and self._ended > 1 and len(self._idle) < _MOST_IDLE:
            try:
                self._idle.append(_Idle(folder.name, self._renewed(folder, inside)))
                at_work_end(self._remove_idle)
                return
            except OSError:
                pass  # the trial has left something unusual, or it has no such folder
        folder.remove_all()
        IN_USE.discard(folder.name)

    def _renewed(self, folder: SafeFolder, before: Mapping[str, Identity]) -> dict[str, Identity]:
        """Leave nothing of the trial in its folder; returns what is in its new outbox. Raises OSError."""
        if folder.below("in").names() != ["params.json"]:
            raise FileExistsError(folder.shown_text)
        with folder.handle() as top:
            for name in os.listdir(top):  # noqa: PTH208
                if name not in ("in", "out"):
                    folder.remove(name)
            os.mkdir("next", dir_fd=top)
            with _opened("out", top) as old, _opened("next", top) as outbox:
                for name, identity in before.items():
                    with suppress(FileNotFoundError):  # the trial may have removed it
                        if _identity(name, old) == identity:
                            os.rename(name, name, src_dir_fd=old, dst_dir_fd=outbox)
                self._fill(outbox)
                found = {name: _identity(name, outbox) for name in _INSIDE}
            folder.remove("out")
            os.rename("next", "out", src_dir_fd=top, dst_dir_fd=top)
        return found

    def _fill(self, outbox: int) -> None:
        """Make the folders of an outbox that are missing, and let the user of the trials write to them."""
        there = os.listdir(outbox)
        for name in _INSIDE:
            if name in there:
                os.utime(name, dir_fd=outbox, follow_symlinks=False)  # also when it was last read
                continue
            os.mkdir(name, dir_fd=outbox)
            if self._owner:
                os.chown(name, *self._owner, dir_fd=outbox, follow_symlinks=False)
        if self._owner:
            os.fchown(outbox, *self._owner)

    def _remove_idle(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            self._trials.remove(idle.name)
            IN_USE.discard(idle.name)


@contextmanager
def _opened(name: str, above: int) -> Iterator[int]:
    folder = os.open(name, _DIRECTORY, dir_fd=above)
    try:
        yield folder
    finally:
        os.close(folder)


def _identity(name: str, folder: int) -> Identity:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return status.st_ino, status.st_ctime_ns
