"""Waits for events that go on from one `asyncio.wait` to the next: making them anew costs more than to wait."""

from __future__ import annotations

import asyncio
from typing import Literal


class EventWaits:
    """One task for each of some events; they end with the `with` block."""

    def __init__(self, *events: asyncio.Event) -> None:
        self._tasks: dict[asyncio.Event, asyncio.Task[Literal[True]] | None] = dict.fromkeys(events)

    def __enter__(self) -> EventWaits:
        return self

    def __exit__(self, *error: object) -> None:
        for task in self._tasks.values():
            if task is not None:
                task.cancel()

    def tasks(self) -> set[asyncio.Task[Literal[True]]]:
        """Tasks of which one is done soon after its event is set; an event that was set before may count, too."""
        for event, task in self._tasks.items():
            if task is None or task.done():
                self._tasks[event] = asyncio.create_task(event.wait())
        return {task for task in self._tasks.values() if task is not None}
