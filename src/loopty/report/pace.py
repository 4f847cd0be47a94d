"""How fast it goes: trials that end and nodes that get their verdict, over the last few of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from loopty.domain.outcome import Ending
from loopty.record.event import Recorded
from loopty.record.trials import TrialEnded
from loopty.record.verdicts import NodeJudged

_MEMORY = 64


@dataclass(frozen=True, slots=True)
class Throughput:
    """Per second; None until there was one."""

    trials_per_second: float | None
    verdicts_per_second: float | None


class Pace:
    """Counts from `began` until it has seen enough to forget the first ones. It falls while nothing happens."""

    def __init__(self, began: float) -> None:
        self._trials: deque[float] = deque([began], maxlen=_MEMORY)
        self._verdicts: deque[float] = deque([began], maxlen=_MEMORY)

    def on_event(self, recorded: Recorded) -> None:
        match recorded.event:
            case NodeJudged():
                self._verdicts.append(recorded.at)
            case TrialEnded(outcome=outcome) if outcome.ending is not Ending.CANCELLED:
                self._trials.append(recorded.at)

    def throughput(self, now: float) -> Throughput:
        return Throughput(_per_second(self._trials, now), _per_second(self._verdicts, now))


def _per_second(marks: deque[float], now: float) -> float | None:
    since, count = marks[0], len(marks) - 1
    return count / (now - since) if count and now > since else None
