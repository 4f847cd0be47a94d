"""Slots for trials that all processes of one repository share: first come, first served.

A slot is a file with a lock; the lock is free the moment its holder dies. Whoever finds all slots taken draws a
turn, a file with a lock as well, and waits until no older turn is held. So nobody starves, and what a killed
process leaves behind holds up nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator

from loopty.kit.safe_folder import SafeFolder

_POLL_SECONDS = 0.03
_SILENT_SECONDS = 1.0
"""Shorter waits are not worth a line."""
_STALE_SECONDS = 60
_OPEN = os.O_RDWR | os.O_CREAT
_UNSEEN = ".new-"
"""The name of a turn begins with this until it is locked."""


class SharedSlots:
    """The first `width` slots in a folder; processes with another width share what both know of."""

    def __init__(self, folder: SafeFolder, width: int, say: Callable[[str], None] = lambda _: None) -> None:
        self.width = width
        self._slots = [folder.file(f"slot-{number}") for number in range(width)]
        self._queue = folder.below("queue")
        self._say = say
        self._descriptors: dict[int, int] = {}
        self._held: set[int] = set()
        self._turns = itertools.count()

    @contextlib.asynccontextmanager
    async def hold(self, cancel: asyncio.Event) -> AsyncIterator[bool]:
        """Yield True while holding a slot, False if the wait is cancelled."""
        slot = self._free_slot() if not self._queue.names() else None
        if slot is None:
            slot = await self._wait(cancel)
        try:
            yield slot is not None
        finally:
            if slot is not None:
                fcntl.flock(self._descriptors[slot], fcntl.LOCK_UN)
                self._held.discard(slot)

    async def _wait(self, cancel: asyncio.Event) -> int | None:
        since, has_spoken = time.monotonic(), False
        with self._turn() as turn:
            while not cancel.is_set():
                if self._is_first(turn) and (slot := self._free_slot()) is not None:
                    return slot
                if not has_spoken and time.monotonic() - since > _SILENT_SECONDS:
                    self._say(self._reason())
                    has_spoken = True
                await asyncio.sleep(_POLL_SECONDS)
        return None

    def _free_slot(self) -> int | None:
        """Lock a slot that is free, or None."""
        for number, file in enumerate(self._slots):
            if number in self._held:
                continue
            if number not in self._descriptors:
                self._descriptors[number] = file.open(_OPEN, 0o600)
            if _lock(self._descriptors[number]):
                self._held.add(number)
                os.pwrite(self._descriptors[number], f"{os.getpid():<20}\n".encode(), 0)
                return number
        return None

    @contextlib.contextmanager
    def _turn(self) -> Iterator[str]:
        """Yield the name of a new turn, which this process holds."""
        name = f"{time.time_ns():020}-{os.getpid()}-{next(self._turns)}"
        with self._queue.handle(make=True) as folder:
            descriptor = self._queue.file(f"{_UNSEEN}{name}").open_in(folder, _OPEN, 0o600)
            try:
                _lock(descriptor)
                # Only now can others see it: they take a turn without a lock for that of a dead process.
                os.rename(f"{_UNSEEN}{name}", name, src_dir_fd=folder, dst_dir_fd=folder)
                yield name
            finally:
                self._queue.remove(name)
                os.close(descriptor)

    def _is_first(self, turn: str) -> bool:
        """Whether no living process holds an older turn. Removes those of dead ones."""
        for name in self._queue.names():
            if name == turn:
                return True
            if name.startswith(_UNSEEN):
                self._remove_old(name)
            elif self._is_held(name):
                return False
            else:
                self._queue.remove(name)
        return True

    def _remove_old(self, name: str) -> None:
        """Remove a turn that nobody will make visible any more: its process died within the instant it took."""
        drawn = name.removeprefix(_UNSEEN).partition("-")[0]
        if not drawn.isdecimal() or time.time_ns() - int(drawn) > _STALE_SECONDS * 1e9:
            self._queue.remove(name)

    def _is_held(self, name: str) -> bool:
        try:
            descriptor = self._queue.file(name).open(os.O_RDWR)
        except OSError:
            return False
        try:
            return not _lock(descriptor)
        finally:
            os.close(descriptor)

    def _reason(self) -> str:
        """What the wait is for."""
        written = (os.pread(descriptor, 20, 0) for descriptor in self._descriptors.values())
        holders = {text.decode(errors="replace").strip() for text in written}
        others = ", ".join(sorted(holders - {str(os.getpid())})) or str(os.getpid())
        return f"waiting for a slot: width = {self.width}, and a trial of process {others} is running"


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
