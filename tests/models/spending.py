"""Role models over a ledger in memory, with models that a test supplies."""

import itertools
import random

from loopty.domain.model import ModelSpec, Role
from loopty.domain.task import Pools
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.archive import Archive
from loopty.models.meter import Meter, MeteredModel, Settlements
from loopty.models.prices import rates_of
from loopty.models.purse import RunPurse
from loopty.models.retry import Retry, Throttle
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import run_events

from .timing import Time


class PaidRun:
    """One run, and role models that spend its budget."""

    def __init__(self, folder, pools=None, roles=None, ledger=None):
        self.time = Time()
        self.ledger = ledger or MemoryLedger()
        self.archive = Archive(SafeFolder(folder, ("calls",)), itertools.count(1.0).__next__)
        self.recorder = Recorder(self.ledger, lambda: 0.0)
        if not self.recorder.history.runs:
            self.recorder.record(lambda _: run_events())
        self.purse = RunPurse(self.recorder, 1, pools or Pools(), "me", roles)
        self.settlements = Settlements()

    @property
    def run(self):
        return self.recorder.history.runs[1]

    def role_model(self, model, role=Role.EVOLVER, throttle=None, **spec):
        return metered_model(model, self.purse, self.archive, self.time, role, throttle, self.settlements, **spec)


def metered_model(model, purse, archive, time, role=Role.EVOLVER, throttle=None, settlements=None, **spec):
    """A real role model of this model."""
    spec = ModelSpec("scripted", **{"file": "script", **spec})
    clock, sleep = time.clock, time.sleep
    throttle = throttle or Throttle(None, None, clock, sleep)
    settlements = settlements or Settlements()
    meter = Meter(role, model.name, spec, rates_of(spec), purse, throttle, settlements, clock)
    retry = Retry(model.name, spec.retries, spec.outage_seconds, random.Random(0), clock, sleep)
    return MeteredModel(role, model, spec, meter, archive, retry)
