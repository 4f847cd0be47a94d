"""Fake time that passes only when every task sleeps."""

import asyncio
import heapq
import itertools

_ROUNDS = 25
"""Rounds of the event loop without news, after which every task counts as asleep."""


class Time:
    """A clock, and a sleep that moves it."""

    def __init__(self, now=1000.0):
        self.now = now
        self.slept = []
        self._order = itertools.count()
        self._sleepers = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        entry = (self.now + seconds, next(self._order))
        heapq.heappush(self._sleepers, entry)
        try:
            while True:
                before = list(self._sleepers)
                for _ in range(_ROUNDS):
                    await asyncio.sleep(0)
                    if self.now >= entry[0]:
                        return
                if before == self._sleepers and self._sleepers[0] == entry:
                    self.now = entry[0]
        finally:
            self._sleepers.remove(entry)
            heapq.heapify(self._sleepers)
