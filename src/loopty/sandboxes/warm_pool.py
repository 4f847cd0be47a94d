"""The warm processes of a sandbox: one for all commands that import the same, started again when it has died."""

from __future__ import annotations

import asyncio
import threading

from loopty.domain.launch import Launch, WarmStart
from loopty.sandboxes.launcher import Launcher
from loopty.sandboxes.warm_process import WarmProcess, WarmRefusal

_MAX_DEATHS = 3


class WarmPool:
    """Starts warm processes when they are needed. Any thread may use it."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._lock = threading.Lock()
        self._processes: dict[WarmStart, WarmProcess] = {}
        self._refusals: dict[WarmStart, WarmRefusal] = {}
        self._deaths: dict[WarmStart, int] = {}

    async def process_for(self, launch: Launch, warm: WarmStart) -> WarmProcess:
        """A process whose copies run commands that start like this. Raises WarmRefusal when there can be none."""
        process = self._processes.get(warm)
        if process is not None and process.is_alive:
            return process
        return await asyncio.to_thread(self._start, launch, warm)

    def refuse(self, warm: WarmStart, reason: str) -> WarmRefusal:
        """Start no more processes for such commands."""
        with self._lock:
            return self._refusals.setdefault(warm, WarmRefusal(reason, is_lasting=True))

    def close(self) -> None:
        """End all processes, and every trial that they started."""
        with self._lock:
            while self._processes:
                self._processes.popitem()[1].close()

    def _start(self, launch: Launch, warm: WarmStart) -> WarmProcess:
        with self._lock:
            process = self._processes.get(warm)
            if process is not None and process.is_alive:
                return process
            if warm in self._refusals:
                raise self._refusals[warm]
            if process is not None:
                del self._processes[warm]
                process.close()
                self._count_death(warm)
            try:
                self._processes[warm] = WarmProcess(self._launcher, launch, warm)
            except WarmRefusal as refusal:
                if refusal.is_lasting:
                    self._refusals[warm] = refusal
                else:
                    self._count_death(warm)
                raise
            return self._processes[warm]

    def _count_death(self, warm: WarmStart) -> None:
        self._deaths[warm] = self._deaths.get(warm, 0) + 1
        if self._deaths[warm] == _MAX_DEATHS:
            self._refusals[warm] = WarmRefusal(f"it was killed {_MAX_DEATHS} times", is_lasting=True)
