"""The workers of a session: where each is, whether its results are ranked, and what it does."""

from __future__ import annotations

from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents
from loopty.record.workers import Workers


class WorkerRow(Record):
    """One worker."""

    name: str
    host: str
    fingerprint: str
    cohort: str
    """`present`: its results are compared with the best node's; `other`: with those of its own kind of machine;
    `closed`: the incumbent is not measured there yet."""
    sandbox: str
    trial: str
    """The trial that it holds by a lease; empty where it waits."""
    lease_seconds: float
    """For how long it has held that."""
    trials: int
    drift: str = ""
    """How what it measures has changed since it joined."""


def worker_rows(run: Run, now: float) -> tuple[WorkerRow, ...]:
    """The workers that are there now, in the order in which they joined."""
    return tuple(
        WorkerRow(
            name,
            member.host,
            member.fingerprint,
            _cohort(run, member.fingerprint),
            member.sandbox,
            member.trial,
            max(0.0, now - member.leased_at) if member.trial else 0.0,
            member.trials,
            member.drift,
        )
        for name, member in Workers.of(run).members.items()
    )


def _cohort(run: Run, fingerprint: str) -> str:
    if fingerprint == Cohorts.of(run).fingerprint:
        return "present"
    return "other" if fingerprint in Incumbents.of(run, Pool.ATTEMPT).by_fingerprint else "closed"
