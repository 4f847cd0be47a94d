"""Opens cohorts: measures the incumbents on each new kind of machine before anything is ranked there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from loopty.campaign.context import CampaignContext
from loopty.campaign.rebaseline_here import best_contender, contenders_to_measure
from loopty.campaign.stoppable import watch_nothing
from loopty.domain.ids import NodeId
from loopty.domain.machine import Machine
from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.domain.worker_outage import WorkerOutage
from loopty.engine.trial_runner import TrialRunner
from loopty.executors.worker_pool import WorkerPool
from loopty.kit.records import replace
from loopty.record.cohorts import CohortOpened, Cohorts, RunRebaselined
from loopty.record.event import Event, Recorded
from loopty.record.history import History
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.record.worker_paces import WorkerPaces


class CohortKeeper:
    """Measures what is needed to compare results of machines that join a session."""

    def __init__(self, context: CampaignContext, run: int, pool: WorkerPool, runner: TrialRunner) -> None:
        self._context = context
        self._run = run
        self._pool = pool
        self._runner = runner
        self._cancel = asyncio.Event()
        self._judged = asyncio.Event()
        """Set when the baseline has its verdict."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._paces = WorkerPaces(context.task.objective)

    def start(self) -> None:
        """Look at the workers that are there, and at all that join."""
        self._context.recorder.listeners.append(self._on_event)
        if self._root_verdict:
            self._judged.set()
        else:  # the baseline is measured on the first machine, and compared there
            self._pool.open_cohort(self._pool.machine.fingerprint)
        self._pool.on_cohort = self._add
        self._pool.offer_cohorts()

    async def close(self) -> None:
        """Stop what is being measured."""
        self._context.recorder.listeners.remove(self._on_event)
        self._pool.on_cohort = lambda _: None
        self._cancel.set()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def _root_verdict(self) -> Verdict | None:
        history = self._context.history
        return history[history.runs[self._run].root].verdict

    def _on_event(self, recorded: Recorded) -> None:
        event = recorded.event
        if drift := self._paces.apply(event):
            asyncio.get_running_loop().call_soon(self._pool.note_drift, drift.worker, drift.reason)
        if isinstance(event, NodeJudged) and event.node == self._context.history.runs[self._run].root:
            self._judged.set()

    def _add(self, machine: Machine) -> None:
        task = asyncio.create_task(self._open(machine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, machine: Machine) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._judged, self._cancel)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        fingerprint = machine.fingerprint
        if self._cancel.is_set() or self._root_verdict is not Verdict.KEPT:
            return
        try:
            reason = await self._measure(fingerprint)
        except WorkerOutage as outage:
            reason = str(outage)
        if reason:
            self._pool.give_up_cohort(fingerprint)
            self._context.say(f"the workers with fingerprint {fingerprint} get no trials: {reason}")
            return
        await self._context.recorder.wait_for_ledger()
        self._context.recorder.record(lambda history: self._decide(history, fingerprint))
        self._pool.open_cohort(fingerprint)

    async def _measure(self, fingerprint: str) -> str:
        """Measure the contenders until their noise is known there; returns why that is not possible."""
        runner, noise = self._runner, self._context.task.noise
        while wanted := contenders_to_measure(runner.history, self._run, fingerprint, noise):
            for node in wanted:
                if not self._pool.has_worker(fingerprint):
                    return "the last of them left"
                await self._context.recorder.wait_for_ledger()
                trial = replace(runner.start_observation(runner.history[node], Pool.REBASE), cohort=fingerprint)
                outcome = await runner.run_observation(trial, watch_nothing, self._cancel)
                if outcome.ending is Ending.CANCELLED:
                    return "the session ends"
                if not outcome.is_finished:
                    return (
                        f"{runner.history.name(node)} gives no result there ({outcome.ending}: {outcome.reason})"
                    )
        return ""

    def _decide(self, history: History, fingerprint: str) -> Iterator[Event]:
        """Compare under this fingerprint, too; alone, where no worker of the present one is left."""
        run = history.runs[self._run]
        present = Cohorts.of(run).fingerprint
        best: NodeId = best_contender(history, self._run, fingerprint)
        if present != fingerprint and not self._pool.has_worker(present):
            yield RunRebaselined(self._run, fingerprint, best)
        elif fingerprint not in Incumbents.of(run, Pool.ATTEMPT).by_fingerprint:
            yield CohortOpened(self._run, fingerprint, best)
