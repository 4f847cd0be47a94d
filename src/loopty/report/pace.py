"""The pace of a run: ended trials and verdicts per second, over the last few of each."""

from __future__ import annotations

from collections import deque

from loopty.domain.outcome import Ending
from loopty.kit.records import Record
from loopty.record.event import Recorded
from loopty.record.trials import TrialEnded
from loopty.record.verdicts import NodeJudged

_MEMORY = 64


class Throughput(Record):
    """Rates of trials and verdicts; None before the first one."""

    trials_per_second: float | None
    verdicts_per_second: float | None


class Pace:
    """Counts from `start`, later over the last few events.

    The rate falls once nothing has happened for longer than usual.
    """

    def __init__(self, start: float) -> None:
        self._trials: deque[float] = deque([start], maxlen=_MEMORY)
        self._verdicts: deque[float] = deque([start], maxlen=_MEMORY)

    def on_event(self, recorded: Recorded) -> None:
        match recorded.event:
            case NodeJudged():
                self._verdicts.append(recorded.at)
            case TrialEnded(outcome=outcome) if outcome.ending is not Ending.CANCELLED:
                self._trials.append(recorded.at)

    def throughput(self, now: float) -> Throughput:
        return Throughput(_per_second(self._trials, now), _per_second(self._verdicts, now))


def _per_second(times: deque[float], now: float) -> float | None:
    start, last, count = times[0], times[-1], len(times) - 1
    if not count or last <= start:
        return None
    usual = (last - start) / count
    return count / (last - start + max(now - last - usual, 0.0))
