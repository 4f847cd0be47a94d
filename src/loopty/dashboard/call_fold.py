"""What models were asked and what it cost, folded from the events about calls."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from loopty.domain.model import CACHED_CALL
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.event import Recorded
from loopty.record.proposals import ProposalRefused

_DURATIONS = 999
"""How many of the newest calls a median is made of."""


@dataclass(slots=True)
class CallSum:
    """What some calls used."""

    calls: int = 0
    cached: int = 0
    failed: int = 0
    refused: int = 0
    tokens: int = 0
    money_usd: float = 0.0
    unpriced: int = 0
    """Calls that used tokens and have no price."""
    seconds: float = 0.0
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=_DURATIONS))
    roles: set[str] = field(default_factory=set)
    model: str = ""
    """The model of the newest call."""
    last_at: float = 0.0

    @property
    def median_seconds(self) -> float | None:
        ordered = sorted(self.durations)
        return ordered[len(ordered) // 2] if ordered else None


class CallFold:
    """The calls of one run. Constant work per event, and memory that grows only with what charts draw."""

    def __init__(self, run: int) -> None:
        self._run = run
        self.by_model: defaultdict[str, CallSum] = defaultdict(CallSum)
        self.by_role: defaultdict[str, CallSum] = defaultdict(CallSum)
        self.by_operator: defaultdict[str, CallSum] = defaultdict(CallSum)
        self.refusals: Counter[str] = Counter()
        self.refused_by_operator: Counter[str] = Counter()
        self.open: dict[str, tuple[CallReserved, float]] = {}
        """Calls in flight, with when they began."""
        self.times = array("d")
        self.money = array("d")
        self.tokens = array("d")
        """What was spent up to each time."""
        self.lanes: deque[tuple[float, float, str]] = deque(maxlen=4_000)
        """When calls were made and answered, with their operator; newest last."""

    def apply(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, CallReserved) and event.run == self._run:
            self._reserve(event, recorded.at)
        elif isinstance(event, CallSettled) and event.call in self.open:
            self._settle(event, recorded.at)
        elif isinstance(event, ProposalRefused) and event.run == self._run:
            self.refusals[str(event.objection)] += 1
            self.refused_by_operator[event.operator] += 1
            if event.operator in self.by_operator:
                self.by_operator[event.operator].refused += 1
                if model := self.by_operator[event.operator].model:
                    self.by_model[model].refused += 1

    def _sums(self, event: CallReserved) -> tuple[CallSum, CallSum, CallSum]:
        return self.by_model[event.model], self.by_role[event.role], self.by_operator[event.operator]

    def _reserve(self, event: CallReserved, at: float) -> None:
        for found in self._sums(event):
            found.roles.add(event.role)
            found.model, found.last_at = event.model, at
            if event.operator == CACHED_CALL:
                found.cached += 1
        self.open[event.call] = event, at

    def _settle(self, event: CallSettled, at: float) -> None:
        reserved, since = self.open.pop(event.call)
        seconds = max(at - since, 0.0)
        for found in self._sums(reserved):
            found.calls += 1
            found.tokens += event.tokens
            found.money_usd += event.money_usd
            found.failed += bool(event.failure)
            found.unpriced += bool(event.tokens and not event.money_usd)
            found.last_at = at
            if not event.lost:
                found.seconds += seconds
                found.durations.append(seconds)
        self.lanes.append((since, at, reserved.operator))
        self.times.append(at)
        self.money.append((self.money[-1] if self.money else 0.0) + event.money_usd)
        self.tokens.append((self.tokens[-1] if self.tokens else 0.0) + event.tokens)

    def spent_at(self, at: float) -> tuple[float, float]:
        """The money and the tokens that were spent up to this time."""
        place = bisect_right(self.times, at) - 1
        return (self.money[place], self.tokens[place]) if place >= 0 else (0.0, 0.0)

    @property
    def costs_money(self) -> bool:
        return bool(self.money) and self.money[-1] > 0

    def cost_at(self, at: float) -> float:
        """The cost axis: money where models have a price, else tokens."""
        money, tokens = self.spent_at(at)
        return money if self.costs_money else tokens
