"""The family of cohorts: results are comparable only under one fingerprint."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.evidence import noise_floor
from loopty.domain.ids import NodeId
from loopty.kit.records import field, replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart


class MachineSeen(Event):
    """The facts behind a fingerprint."""

    run: int
    fingerprint: str
    facts: Mapping[str, str]


class RunRebaselined(Event):
    """From here on results are compared under this fingerprint, with this node as the first incumbent."""

    run: int
    fingerprint: str
    incumbent: NodeId


class CohortOpened(Event):
    """Results under this fingerprint are compared beside those of the present one, first with this node."""

    run: int
    fingerprint: str
    incumbent: NodeId


class Cohorts(RunPart):
    """The fingerprints under which a run has results."""

    fingerprint: str = ""
    """The one under which results are compared now."""
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The facts behind each fingerprint."""
    noise: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Standard deviation of each metric by fingerprint, 0 where nothing varied."""


def _note_machine(state: FoldState, event: MachineSeen, _at: float) -> None:
    run = state.runs[event.run]
    cohorts = Cohorts.of(run)
    machines = {**cohorts.machines, event.fingerprint: event.facts}
    state.put_run(run.with_part(replace(cohorts, machines=machines)))


def _rebaseline(state: FoldState, event: RunRebaselined | CohortOpened, _at: float) -> None:
    run = state.runs[event.run]
    cohorts, known = Cohorts.of(run), state[run.root].result(event.fingerprint)
    noise = {**cohorts.noise, event.fingerprint: noise_floor(known.samples if known else ())}
    present = event.fingerprint if isinstance(event, RunRebaselined) else cohorts.fingerprint
    state.put_run(run.with_part(replace(cohorts, fingerprint=present, noise=noise)))


def note_machine(history: FoldState, run: int, fingerprint: str, facts: Mapping[str, str]) -> list[Event]:
    """The facts behind a fingerprint, once per run."""
    known = fingerprint in Cohorts.of(history.runs[run]).machines
    return [] if known else [MachineSeen(run, fingerprint, facts)]


FAMILY = Family(
    (MachineSeen, RunRebaselined, CohortOpened),
    {MachineSeen: _note_machine, RunRebaselined: _rebaseline, CohortOpened: _rebaseline},
)
