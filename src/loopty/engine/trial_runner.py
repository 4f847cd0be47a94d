"""Runs the trials of a node and records them: judging trials, which serve its verdict, and observing ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from loopty.domain.benchmark import Gate
from loopty.domain.errors import Exhausted
from loopty.domain.launch import SandboxError
from loopty.domain.model import Outage, TrialLosesWorkers, WorkerOutage
from loopty.domain.proposal import recordable
from loopty.domain.trial import Ending, GateScope, Outcome, Pool
from loopty.engine import decisions
from loopty.engine.protocols import Executor, OnMetrics, Reviewer, Trial, Workspaces
from loopty.judge.revisions import start_confirmation
from loopty.judge.tuning import Judging
from loopty.kit.records import replace
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded, NodeGates
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts, TrialEnded, TrialStarted, trial_name, trial_token
from loopty.record.tunings import Tunings
from loopty.record.verdicts import NodeJudged, NodeReopened, VerdictWithdrawn

Watch = Callable[[Trial], OnMetrics]


class TrialRunner:
    """Runs trials and records their outcomes."""

    def __init__(
        self,
        recorder: Recorder,
        judging: Judging,
        gates: tuple[Gate, ...],
        executor: Executor,
        workspaces: Workspaces,
        owner: str,
        reviewer: Reviewer | None = None,
    ) -> None:
        """`gates` are the task's. `judging.review` names the reviewer's mode where there is a reviewer."""
        self.executor = executor
        self._recorder = recorder
        self.judging = judging
        self._gates = gates
        self._workspaces = workspaces
        self._owner = owner
        self._reviewer = reviewer
        self.may_start = asyncio.Event()
        """Unset while the run is paused: a trial that is recorded then waits for it."""
        self.may_start.set()

    @property
    def history(self) -> History:
        return self._recorder.history

    def start(self, node: Node) -> Trial | None:
        """Start the next trial that serves the node's verdict; None when the verdict needs none.

        Raises Misuse where no trial may start.
        """
        recorded = self._record(lambda history: decisions.start_trial(history, node.id, self._owner, self.judging))
        self._conclude(recorded)
        return self.trial(recorded)

    def add_and_start(self, add: Callable[[History], Iterable[Event]]) -> list[Event]:
        """Record the node that `add` makes together with the start of its first trial."""

        def decide(history: History) -> Iterator[Event]:
            for event in add(history):
                yield event
                if isinstance(event, NodeAdded):
                    yield from decisions.start_trial(history, event.node, self._owner, self.judging)

        return self._record(decide)

    def start_observation(self, node: Node, pool: Pool) -> Trial:
        """Start a trial that serves no verdict."""
        return self._start_observing(
            lambda history: decisions.start_observation(history, node.id, self._owner, pool)
        )

    def start_audit(self, node: Node, split: str) -> Trial:
        """Start a trial on the held-out split; its result stays out of the history."""
        return self._start_observing(lambda history: decisions.start_audit(history, node.id, self._owner, split))

    def _start_observing(self, decide: Callable[[History], list[Event]]) -> Trial:
        trial = self.trial(self._record(decide))
        assert trial is not None
        return trial

    async def run_until_verdict(self, trial: Trial | None, watch: Watch, cancel: asyncio.Event) -> None:
        """Run the trial, and those that the judge asks for after it, until the verdict or a stop."""
        while trial is not None:
            recorded = await self._run_trial(trial, watch(trial), cancel)
            self._conclude(recorded)
            trial = self.trial(recorded)

    async def run_observation(self, trial: Trial, watch: Watch, cancel: asyncio.Event) -> Outcome:
        """Return the outcome of an observing trial, as recorded."""
        recorded = await self._run_trial(trial, watch(trial), cancel)
        return next(event.outcome for event in recorded if isinstance(event, TrialEnded))

    async def confirm_best(self, run: int, pairs: int, watch: Watch, cancel: asyncio.Event) -> None:
        """Measure the best node beside the baseline until there are this many fresh pairs, or a stop."""
        noise = self.judging.noise
        while not cancel.is_set():
            recorded = self._record(lambda history: start_confirmation(history, run, self._owner, noise, pairs))
            self._conclude(recorded)
            trial = self.trial(recorded)
            if trial is None:
                return
            await self.run_observation(trial, watch, cancel)

    async def _run_trial(self, trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> list[Event]:
        """Run one trial and record its end, whatever happens."""
        node, number = trial.node.id, trial.number
        outcome = Outcome(Ending.CANCELLED, reason="loopty failed while it ran")
        try:
            await self._wait_for_start(cancel)
            outcome = recordable(await self._outcome(trial, on_metrics, cancel))
        except (Outage, Exhausted, SandboxError) as error:
            outcome = recordable(Outcome(Ending.CANCELLED, reason=str(error)))
            if not _is_blameless(trial, error):
                self._conclude(self._record(lambda h: decisions.lose_trial(h, node, number, outcome.reason)))
            raise
        finally:
            await self._recorder.wait_for_ledger()
            recorded = self._record(lambda h: decisions.end_trial(h, node, number, outcome, self.judging))
        return recorded

    async def _wait_for_start(self, cancel: asyncio.Event) -> None:
        """Wait until trials may start, or until everything is cancelled."""
        while not (self.may_start.is_set() or cancel.is_set()):
            waits = [asyncio.create_task(event.wait()) for event in (self.may_start, cancel)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waits:
                    task.cancel()

    async def _outcome(self, trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        if trial.pool is Pool.REVIEW:
            assert self._reviewer is not None
            return await self._reviewer.review(trial, cancel)
        self._workspaces.publish(trial.node, self._parent(trial.node))
        return await self.executor.execute(trial, on_metrics, cancel)

    def trial(self, recorded: Sequence[Event]) -> Trial | None:
        """Return the trial that these events start."""
        event = next((event for event in recorded if isinstance(event, TrialStarted)), None)
        if event is None:
            return None
        node, run = self.history[event.node], self.history.runs[event.node.run]
        gates = (*self._gates, *NodeGates.of(run).gates_of(node.id))
        scope = event.pool.rules.gates
        if scope is not GateScope.ALL:
            gates = tuple(gate for gate in gates if gate.metric and scope is GateScope.METRICS)
        token = trial_token(run, trial_name(event.node, event.number))
        root, cohort = self.history[run.root], self._cohort(event, run)
        trial = Trial(
            node=node,
            root=root,
            number=event.number,
            pool=event.pool,
            seed=run.seed,
            gates=gates,
            token=token,
            cohort=cohort,
        )
        tuning = Tunings.of(run, node.pool).open.get(node.id) if event.pool is Pool.TUNE else None
        if tuning is None or tuning.chosen is None:
            return trial
        return replace(trial, node=replace(node, params=tuning.chosen), slice=tuning.slice)

    def _cohort(self, event: TrialStarted, run: Run) -> str:
        """Return the fingerprint that makes the result comparable; empty if it is compared with none yet."""
        if event.pool in (Pool.CONFIRM, Pool.TUNE):
            return Cohorts.of(run).fingerprint
        outcome = self.history[event.subject].outcome if event.subject else None
        return outcome.fingerprint if outcome else ""

    def _conclude(self, recorded: Sequence[Event]) -> None:
        for event in recorded:
            if isinstance(event, NodeJudged | VerdictWithdrawn | NodeReopened):
                self._workspaces.conclude(self.history[event.node], self.history)

    def _parent(self, node: Node) -> Node | None:
        return self.history[node.id.parent] if node.id.parent else None

    def _record(self, decide: Callable[[History], Iterable[Event]]) -> list[Event]:
        return [recorded.event for recorded in self._recorder.record(decide)]


def _is_blameless(trial: Trial, error: Exception) -> bool:
    """Say whether an error that ended a trial never counts against the node.

    A node that brings the benchmark's model down several times is quarantined. The baseline never is, and a node
    whose verifier is unavailable is not either.
    """
    if isinstance(error, SandboxError | TrialLosesWorkers):
        return False
    return isinstance(error, Exhausted | WorkerOutage) or trial.pool is Pool.REVIEW or trial.node.id.parent is None
