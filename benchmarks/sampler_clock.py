"""The CPU of each question to a sampler, measured by two searches that take turns."""

import statistics
import threading
import time
from collections.abc import Callable, Sequence

_LAST = 100
"""Questions that count: the last ones of a search."""


class AskClock:
    """CPU seconds of each question in its order, with what it takes to tell the sampler the results before it."""

    def __init__(self, wait: Callable[[], object] = bool, hand_over: Callable[[], object] = bool) -> None:
        """`wait` is called before a question begins, `hand_over` after it."""
        self.seconds: list[float] = []
        self._wait = wait
        self._hand_over = hand_over
        self._started = 0.0

    def start(self) -> None:
        self._wait()
        self._started = time.thread_time()

    def stop(self) -> None:
        self.seconds.append(time.thread_time() - self._started)
        self._hand_over()


def median_costs(searches: Sequence[Callable[[AskClock], object]]) -> list[float]:
    """The median CPU seconds of a question late in each of two searches, which ask in turns.

    On a shared machine the cost of the same work doubles from one minute to the next, so one search after the
    other would compare two minutes.
    """
    turns = [threading.Semaphore(1), threading.Semaphore(0)]
    clocks = [AskClock(turns[0].acquire, turns[1].release), AskClock(turns[1].acquire, turns[0].release)]

    def run(number: int) -> None:
        try:
            searches[number](clocks[number])
        finally:
            turns[1 - number].release(1_000_000)  # the other one goes on alone

    threads = [threading.Thread(target=run, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [statistics.median(clock.seconds[-_LAST:]) for clock in clocks]
