"""Going on where another machine left off: the baseline and the incumbents are measured here first."""

from __future__ import annotations

import asyncio
import functools

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metrics, gain
from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.domain.task import Noise
from loopty.engine.judge import is_noise_known
from loopty.engine.trial_runner import TrialRunner, Watch
from loopty.record.cohorts import RunRebaselined
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.run_record import Run
from loopty.record.sessions import Session
from loopty.record.verdicts import Incumbents


async def measured_here(
    measure: TrialRunner, run: int, fingerprint: str, noise: Noise, watch: Watch, cancel: asyncio.Event
) -> bool:
    """Measure the contenders in turns until their noise is known; False when stopped, to go on another time."""
    while wanted := _unknown(measure.history, run, fingerprint, noise):
        for node in wanted:
            trial = measure.start_observation(measure.history[node], Pool.REBASE)
            outcome = await measure.run_observation(trial, watch, cancel)
            if outcome.ending is Ending.CANCELLED:
                return False
            if not outcome.is_finished:
                raise Misuse(f"node {node} gives no result here ({outcome.ending}: {outcome.reason})")
    return True


def rebaselined(history: History, run: int, fingerprint: str, noise: Noise) -> list[Event]:
    """From now on compare under this fingerprint, with the best of the contenders as the one to beat."""
    found = history.runs[run]
    if Session.of(found).driver:
        raise Misuse(
            f"run {run} is being driven by `loopty optimize` ({Session.of(found).driver}): stop that one first"
        )
    if _unknown(history, run, fingerprint, noise):
        raise Misuse(f"the incumbent of run {run} changed meanwhile: run `loopty rebaseline` again")
    metrics = history.counting_metrics(run)

    def better(one: NodeId, other: NodeId) -> NodeId:
        mine, theirs = (history[node].result(fingerprint) for node in (one, other))
        assert mine is not None
        assert theirs is not None
        return other if gain(theirs.outcome.metrics, mine.outcome.metrics, metrics).amount > 0 else one

    return [RunRebaselined(run, fingerprint, functools.reduce(better, _contenders(found, fingerprint)))]


def _contenders(run: Run, fingerprint: str) -> list[NodeId]:
    """Who may be the one to beat here: the incumbent, who was it here before, and the baseline."""
    incumbents = Incumbents.of(run, Pool.ATTEMPT)
    known = (incumbents.best, incumbents.by_fingerprint.get(fingerprint), run.root)
    return list(dict.fromkeys(node for node in known if node))


def _unknown(history: History, run: int, fingerprint: str, noise: Noise) -> list[NodeId]:
    """The contenders that are still to be measured here."""

    def samples(node: NodeId) -> tuple[Metrics, ...]:
        found = history[node].result(fingerprint)
        return found.samples if found else ()

    return [
        node for node in _contenders(history.runs[run], fingerprint) if not is_noise_known(samples(node), noise)
    ]
