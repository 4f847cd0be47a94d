"""Continue a run on another machine: measure the baseline and the incumbents here first."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping

from loopty.campaign.combine_stage import context_of_run
from loopty.campaign.context import CampaignContext
from loopty.campaign.run_entry import require_same_criteria
from loopty.campaign.stoppable import run_until_stopped, watch_nothing
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metrics, gain
from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.domain.task import Noise
from loopty.engine.trial_runner import TrialRunner
from loopty.judge.judge import is_noise_known
from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts, RunRebaselined
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.run_record import Run
from loopty.record.sessions import Session
from loopty.record.verdicts import Incumbents


class Rebaseline(Record):
    """A run that continues on this machine."""

    run: int
    fingerprint: str
    machine: Mapping[str, str]
    incumbent: NodeId
    """The node to beat here."""
    score: float | None


def rebaseline(context: CampaignContext, run: Run, unsafe: bool) -> Rebaseline | None:
    """Measure the baseline and the incumbents here, and compare with them from now on; None when stopped."""
    root = context.history[run.root]
    if root.verdict is not Verdict.KEPT:
        raise Misuse(f"run {run.number} has no baseline to measure here: `loopty optimize` begins with it")
    _refuse_driven(run)
    context = context_of_run(context, run.number)
    require_same_criteria(context, root)
    executor, noise = context.executor(unsafe, run.number), context.task.noise
    runner, here = context.trial_runner(run.number, executor, anywhere=True), executor.machine.fingerprint
    done = run_until_stopped(lambda cancel: _measure_contenders(runner, run.number, here, noise, cancel))
    if not done:
        return None
    (recorded,) = context.recorder.record(lambda history: decide_rebaseline(history, run.number, here, noise))
    assert isinstance(recorded.event, RunRebaselined)
    history, incumbent = context.history, recorded.event.incumbent
    result = history[incumbent].result(here)
    score = result.outcome.metrics[history.counting_metrics(run.number)[0].name] if result else None
    machine = Cohorts.of(history.runs[run.number]).machines[here]
    return Rebaseline(run.number, here, machine, incumbent, score)


def decide_rebaseline(history: History, run: int, fingerprint: str, noise: Noise) -> list[Event]:
    """From now on compare under this fingerprint, with the best of the contenders as the incumbent."""
    _refuse_driven(history.runs[run])
    if contenders_to_measure(history, run, fingerprint, noise):
        raise Misuse(f"the incumbent of run {run} changed meanwhile: run `loopty rebaseline` again")
    return [RunRebaselined(run, fingerprint, best_contender(history, run, fingerprint))]


def best_contender(history: History, run: int, fingerprint: str) -> NodeId:
    """The best of the contenders, which are all measured under this fingerprint."""
    metrics = history.counting_metrics(run)

    def better(one: NodeId, other: NodeId) -> NodeId:
        mine, theirs = (history[node].result(fingerprint) for node in (one, other))
        assert mine is not None
        assert theirs is not None
        return other if gain(theirs.outcome.metrics, mine.outcome.metrics, metrics).amount > 0 else one

    return functools.reduce(better, _contenders(history.runs[run], fingerprint))


async def _measure_contenders(
    runner: TrialRunner, run: int, fingerprint: str, noise: Noise, cancel: asyncio.Event
) -> bool:
    """Measure the contenders in turns until their noise is known; False when stopped, to continue another time."""
    while wanted := contenders_to_measure(runner.history, run, fingerprint, noise):
        for node in wanted:
            trial = runner.start_observation(runner.history[node], Pool.REBASE)
            outcome = await runner.run_observation(trial, watch_nothing, cancel)
            if outcome.ending is Ending.CANCELLED:
                return False
            if not outcome.is_finished:
                why = f"{outcome.ending}: {outcome.reason}"
                raise Misuse(f"{runner.history.name(node)} gives no result here ({why}): fix that, then try again")
    return True


def _refuse_driven(run: Run) -> None:
    if driver := Session.of(run).driver:
        raise Misuse(f"run {run.number} is being driven by `loopty optimize` ({driver}): stop that one first")


def _contenders(run: Run, fingerprint: str) -> list[NodeId]:
    """The nodes that may be the incumbent here: the present one, the one that was it here before, the baseline."""
    incumbents = Incumbents.of(run, Pool.ATTEMPT)
    known = (incumbents.best, incumbents.by_fingerprint.get(fingerprint), run.root)
    return list(dict.fromkeys(node for node in known if node))


def contenders_to_measure(history: History, run: int, fingerprint: str, noise: Noise) -> list[NodeId]:
    """The contenders whose noise here is not known yet."""

    def samples(node: NodeId) -> tuple[Metrics, ...]:
        result = history[node].result(fingerprint)
        return result.samples if result else ()

    contenders = _contenders(history.runs[run], fingerprint)
    return [node for node in contenders if not is_noise_known(samples(node), noise)]
