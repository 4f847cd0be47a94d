"""Looks after a running coding agent: feeds what is seen of it to the watch, and stops it when it stalls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from loopty.agents.agent_stream import AgentEvent, AgentStream
from loopty.agents.request_watch import RequestWatch
from loopty.agents.stall import Stall
from loopty.agents.stall_watch import StallLimits, StallWatch, Vitals
from loopty.domain.launch import Connection, Freezer
from loopty.sandboxes.socket_traffic import connections_of

_LOOK_SECONDS = 1.0


class LifeSigns:
    """Looks at a running agent once a second, and stops it when it stalls."""

    def __init__(self, limits: StallLimits, is_asking: Callable[[], bool]) -> None:
        """`is_asking` says whether the agent waits for loopty: for its model, or for a tool."""
        self.stall: Stall | None = None
        self._watch = StallWatch(limits, time.monotonic())
        self._is_asking = is_asking
        self._period = min(_LOOK_SECONDS, limits.silence_seconds / 4)
        self._processes: Freezer | None = None
        self._requests = RequestWatch()
        self._has_own_login = limits.answer_seconds is not None

    def start(self, processes: Freezer) -> None:
        """The agent's program starts now."""
        self._processes = processes
        self._watch.hear(time.monotonic(), 0)

    def note(self, event: AgentEvent) -> None:
        self._watch.note(event, time.monotonic())

    def hear(self, text: str, stream: AgentStream) -> None:
        if text:
            self._watch.hear(time.monotonic(), stream.usage.tokens)

    def hear_errors(self, text: str) -> None:
        if text:
            self._watch.hear(time.monotonic(), 0)

    async def look(self, stop: asyncio.Event) -> None:
        """Look again and again; set `stop` at a stall."""
        while self.stall is None:
            await asyncio.sleep(self._period)
            cpu = await asyncio.to_thread(self._cpu_seconds)
            connections = await asyncio.to_thread(self._connections)
            now = time.monotonic()
            unanswered = self._requests.unanswered_seconds(connections, now)
            self.stall = self._watch.stall(Vitals(now, cpu, self._is_asking(), unanswered))
        stop.set()

    def _connections(self) -> Mapping[int, Connection] | None:
        if not self._has_own_login or not self._processes:
            return None
        try:
            return connections_of(self._processes.processes())
        except OSError:
            return None

    def _cpu_seconds(self) -> float | None:
        try:
            return self._processes.cpu_seconds() if self._processes else None
        except OSError:
            return None
