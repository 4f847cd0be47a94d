"""The slots for trials and for questions to models, and the model that everything waits for."""

from __future__ import annotations

from loopty.domain.model import Role
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.run_record import Run
from loopty.record.trials import Trials

_LONG_CALL_SECONDS = 10.0
"""From then on, an open call is named as what a run waits for."""


class SlotUse(Record):
    """How many slots there are for trials and for proposals of models, and how many are taken now."""

    trials: int
    running: int
    questions: int
    asking: int


class AwaitedModel(Record):
    """A model that has not answered for a while: it thinks, or it is unavailable and asked again."""

    name: str
    seconds: float


def awaited_model(run: Run, now: float) -> AwaitedModel | None:
    """The model of the oldest open call, where nothing else goes on."""
    calls = Spend.of(run).reservations.values()
    if not calls or Trials.of(run).running:
        return None
    oldest = min(calls, key=lambda call: call.since)
    seconds = now - oldest.since
    return AwaitedModel(oldest.model or oldest.role, seconds) if seconds >= _LONG_CALL_SECONDS else None


def slot_use(run: Run, trials: int, questions: int) -> SlotUse | None:
    spend = Spend.of(run)
    asking = sum(call.pool is not None for call in spend.reservations.values())
    if not asking and Role.EVOLVER not in spend.seconds:
        return None
    return SlotUse(trials, len(Trials.of(run).running), questions, asking)
