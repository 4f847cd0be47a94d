"""Runs trials on this machine, in slots and with named resources that processes share in turn.

A slot is a file with a lock; the lock is free the moment its holder dies. Whoever finds all slots taken draws a
turn, a file with a lock as well, and waits until no older turn is held. So nobody starves, and what a killed
process leaves behind holds up nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import itertools
import os
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.trial import Ending, Machine, Outcome
from loopty.engine.protocols import OnMetrics, Trial
from loopty.kit.kept_files import is_own, make_own_folder, user_cache
from loopty.kit.machine_load import load_now
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import temporary_top

_TURN_POLL_SECONDS = 0.03
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
                await asyncio.sleep(_TURN_POLL_SECONDS)
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
        """Say whether no living process holds an older turn. Removes those of dead ones."""
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
        """Say what the wait is for."""
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


_POLL_SECONDS = 0.05

Evaluate = Callable[[Trial, OnMetrics, asyncio.Event], Awaitable[Outcome]]


class LocalExecutor:
    """Runs trials in the slots of the repository; a trial's clock starts when it holds its resources."""

    def __init__(
        self,
        evaluate: Evaluate,
        slots: SharedSlots,
        resources: Sequence[str],
        machine: Machine,
        fills_machine: bool = True,
    ) -> None:
        """`fills_machine`: trials may keep all CPUs busy by themselves, so only more waiting than usual counts."""
        self._usual_load = 1.0 if fills_machine else 0.0
        self.width = slots.width
        self.machine = machine
        self._fingerprint = machine.fingerprint
        self._evaluate = evaluate
        self._resources = resources
        self._own_turn = asyncio.Semaphore(slots.width)  # trials of this process start in the order they came
        self._slots = slots

    async def execute(self, trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        async with self._own_turn, hold_place(self._slots, self._resources, cancel) as refusal:
            if refusal:
                return Outcome(Ending.CANCELLED, reason=refusal)
            before = load_now()
            outcome = await self._evaluate(trial, on_metrics, cancel)
            load = before.share_until(load_now())
            self._usual_load = min(self._usual_load, load)
            return replace(outcome, fingerprint=self._fingerprint, stalled=round(load - self._usual_load, 3))


@contextlib.asynccontextmanager
async def hold_place(slots: SharedSlots, resources: Sequence[str], cancel: asyncio.Event) -> AsyncIterator[str]:
    """Hold a slot and these resources; yields why it holds none, where the wait was cancelled, else nothing."""
    async with contextlib.AsyncExitStack() as held:
        if not await held.enter_async_context(slots.hold(cancel)):
            yield "stopped while waiting for a slot"
            return
        for resource in sorted(set(resources)):  # the same order everywhere prevents deadlocks
            if not await held.enter_async_context(_hold_resource(resource, cancel)):
                yield f"stopped while waiting for {resource}"
                return
        yield ""


@contextlib.asynccontextmanager
async def _hold_resource(resource: str, cancel: asyncio.Event) -> AsyncIterator[bool]:
    """Yield True while holding the resource, False if the wait is cancelled. The lock ends with the process."""
    descriptor = os.open(lock_path(resource), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while not cancel.is_set():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_POLL_SECONDS)
            else:
                yield True
                return
        yield False
    finally:
        os.close(descriptor)


def lock_path(resource: str) -> Path:
    """Return the lock file of a resource, which all of the user's loopty processes on this machine share."""
    return _lock_folder() / f"{hashlib.sha256(resource.encode()).hexdigest()[:16]}.lock"


def _lock_folder() -> Path:
    """Return the usual folder, or one in the user's cache if another user has taken its name."""
    usual = Path(temporary_top(), f"loopty-{os.getuid()}")
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            usual.mkdir(mode=0o700)
        if is_own(usual.lstat(), stat.S_IFDIR):
            return usual
    # Machines may share a home, and each has its own resources.
    other = user_cache(f"locks-{os.uname().nodename}")
    with contextlib.suppress(OSError):
        if other is not None:
            make_own_folder(str(other))
            return other
    raise Misuse(
        f"loopty keeps its locks in {usual}, which belongs to another user, or in {other or 'your home'}, which "
        f"cannot be used either: remove the first, or name another folder for temporary files in TMPDIR"
    )
