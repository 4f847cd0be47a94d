"""Runs trials on this machine, in slots and with named resources that processes share in turn."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.machine import Machine
from loopty.domain.outcome import Ending, Outcome
from loopty.engine.protocols import OnMetrics, Trial
from loopty.executors.shared_slots import SharedSlots
from loopty.kit.records import replace
from loopty.kit.temporary_top import temporary_top
from loopty.kit.user_cache import is_own, make_own_folder, user_cache

_POLL_SECONDS = 0.05

Evaluate = Callable[[Trial, OnMetrics, asyncio.Event], Awaitable[Outcome]]


class LocalExecutor:
    """Runs trials in the slots of the repository; a trial's clock starts when it holds its resources."""

    def __init__(self, evaluate: Evaluate, slots: SharedSlots, resources: Sequence[str], machine: Machine) -> None:
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
            outcome = await self._evaluate(trial, on_metrics, cancel)
            return replace(outcome, fingerprint=self._fingerprint)


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
    """The lock file of a resource, shared by all of the user's loopty processes on this machine."""
    return _lock_folder() / f"{hashlib.sha256(resource.encode()).hexdigest()[:16]}.lock"


def _lock_folder() -> Path:
    """The usual folder, or one in the user's cache where another user has taken the name of the usual one."""
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
