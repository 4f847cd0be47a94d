"""Lines over a ledger in memory, with models that do as a test says."""

import itertools
import random

from loopty.domain.model import ModelSpec, Role
from loopty.domain.task import Pools
from loopty.ledgers.memory import MemoryLedger
from loopty.models.archive import Archive
from loopty.models.meter import Meter, Settlements
from loopty.models.metered_model import MeteredModel
from loopty.models.prices import rates_of
from loopty.models.purse import RunPurse
from loopty.models.retry import Retry
from loopty.models.throttle import Throttle
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import run_events

from .timing import Time


class RunWithModels:
    """One run, and lines that spend its budget."""

    def __init__(self, folder, pools=None, roles=None, ledger=None):
        self.time = Time()
        self.ledger = ledger or MemoryLedger()
        self.archive = Archive(folder / "calls", itertools.count(1.0).__next__)
        self.recorder = Recorder(self.ledger, lambda: 0.0)
        if not self.recorder.history.runs:
            self.recorder.record(lambda _: run_events())
        self.purse = RunPurse(self.recorder, 1, pools or Pools(), "me", roles)
        self.settlements = Settlements()

    @property
    def run(self):
        return self.recorder.history.runs[1]

    def line(self, model, role=Role.EVOLVER, throttle=None, **stated):
        return metered_model(
            model, self.purse, self.archive, self.time, role, throttle, self.settlements, **stated
        )


def metered_model(model, purse, archive, time, role=Role.EVOLVER, throttle=None, settlements=None, **stated):
    """A real line to this model."""
    stated = ModelSpec("scripted", **{"file": "script", **stated})
    clock, sleep = time.clock, time.sleep
    throttle = throttle or Throttle(None, None, clock, sleep)
    settlements = settlements or Settlements()
    meter = Meter(role, model.name, stated, rates_of(stated), purse, throttle, settlements, clock)
    retry = Retry(model.name, stated.retries, stated.outage_seconds, random.Random(0), clock, sleep)
    return MeteredModel(role, model, stated, meter, archive, retry)
