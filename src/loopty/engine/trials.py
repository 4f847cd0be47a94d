"""The trials of a node, from start to record: those that decide of it, and those that only look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from loopty.domain.errors import Exhausted
from loopty.domain.gate_spec import Gate
from loopty.domain.launch import SandboxError
from loopty.domain.model import Outage
from loopty.domain.outcome import Ending, Outcome, Pool
from loopty.domain.task import Noise, Pools
from loopty.engine import decisions
from loopty.engine.protocols import Executor, Reviewer, OnMetrics, Trial, Workspaces
from loopty.record.events import Event, NodeAdded, NodeJudged, TrialEnded, TrialStarted
from loopty.record.history import History
from loopty.record.recorder import Recorder
from loopty.record.records import Node

_GATED = (Pool.ATTEMPT, Pool.CONTROL, Pool.REPLAY)
"""The command of a gate is passed once; a bound on a metric holds for every measurement."""

Watch = Callable[[Trial], OnMetrics]


def _is_blameless(trial: Trial, error: Exception) -> bool:
    """Whether what broke a trial off says nothing of the node, however often it happens.

    A node that brings the benchmark's model down again and again is set aside at last; not so the baseline, nor
    one whose verifier cannot be had.
    """
    if isinstance(error, SandboxError):
        return False
    return isinstance(error, Exhausted) or trial.pool is Pool.REVIEW or trial.node.id.parent is None


class TrialRunner:
    """Runs trials and records what comes of them."""

    def __init__(
        self,
        scribe: Recorder,
        pools: Pools,
        noise: Noise,
        gates: tuple[Gate, ...],
        executor: Executor,
        workspaces: Workspaces,
        owner: str,
        reviewer: Reviewer | None = None,
    ) -> None:
        self.executor = executor
        self._scribe = scribe
        self._pools = pools
        self._noise = noise
        self._gates = gates
        self._workspaces = workspaces
        self._owner = owner
        self._reviewer = reviewer
        self._review = reviewer.mode if reviewer else "off"

    @property
    def history(self) -> History:
        return self._scribe.history

    def start(self, node: Node) -> Trial | None:
        """The next trial that helps to decide of the node; None when it has its verdict without one.

        Raises Misuse where no trial may start.
        """
        recorded = self._record(
            lambda history: decisions.start_trial(
                history, node.id, self._owner, self._pools, self._noise, self._review
            )
        )
        self._conclude(recorded)
        return self.trial(recorded)

    def add_and_start(self, add: Callable[[History], Iterable[Event]]) -> list[Event]:
        """Record the node that `add` makes with the start of its first trial, in one turn."""

        def started(history: History) -> Iterator[Event]:
            for event in add(history):
                yield event
                if isinstance(event, NodeAdded):
                    yield from decisions.start_trial(
                        history, event.node, self._owner, self._pools, self._noise, self._review
                    )

        return self._record(started)

    def start_observation(self, node: Node, pool: Pool) -> Trial:
        """A trial that decides of nothing."""
        return self._start_observing(lambda history: decisions.start_observation(history, node.id, self._owner, pool))

    def start_audit(self, node: Node, split: str) -> Trial:
        """A trial on the held-out split; what it finds stays out of the history."""
        return self._start_observing(lambda history: decisions.start_audit(history, node.id, self._owner, split))

    def _start_observing(self, decide: Callable[[History], list[Event]]) -> Trial:
        trial = self.trial(self._record(decide))
        assert trial is not None
        return trial

    async def run_until_verdict(self, trial: Trial | None, watch: Watch, cancel: asyncio.Event) -> None:
        """Fly the trial and those that the judge asks for after it, until the verdict or a stop."""
        while trial is not None:
            recorded = await self._run_trial(trial, watch(trial), cancel)
            self._conclude(recorded)
            trial = self.trial(recorded)

    async def run_observation(self, trial: Trial, watch: Watch, cancel: asyncio.Event) -> Outcome:
        """The outcome of a trial that decides of nothing, as recorded."""
        recorded = await self._run_trial(trial, watch(trial), cancel)
        return next(event.outcome for event in recorded if isinstance(event, TrialEnded))

    async def _run_trial(self, trial: Trial, seen: OnMetrics, cancel: asyncio.Event) -> list[Event]:
        node, number = trial.node.id, trial.number
        outcome = Outcome(Ending.CANCELLED, reason="loopty failed while it ran")
        recorded: list[Event] = []
        try:
            outcome = await self._outcome(trial, seen, cancel)
        except (Outage, Exhausted, SandboxError) as error:
            outcome = Outcome(Ending.CANCELLED, reason=str(error))
            if not _is_blameless(trial, error):
                reason = str(error)
                self._conclude(self._record(lambda history: decisions.lose_trial(history, node, number, reason)))
            raise
        finally:
            recorded = self._record(
                lambda history: decisions.end_trial(
                    history, node, number, outcome, self._pools, self._noise, self._review
                )
            )
        return recorded

    async def _outcome(self, trial: Trial, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:
        if trial.pool is Pool.REVIEW:
            assert self._reviewer is not None
            return await self._reviewer.review(trial, cancel)
        self._workspaces.publish(trial.node, self._parent(trial.node))
        return await self.executor.execute(trial, seen, cancel)

    def trial(self, recorded: Sequence[Event]) -> Trial | None:
        """The trial that these events start."""
        event = next((event for event in recorded if isinstance(event, TrialStarted)), None)
        if event is None:
            return None
        node, run = self.history[event.node], self.history.runs[event.node.run]
        gates = (*self._gates, *run.gates_of(node.id))
        if event.pool not in _GATED:
            gates = tuple(gate for gate in gates if gate.metric and event.pool is Pool.REPEAT)
        return Trial(node, self.history[run.root], event.number, event.pool, run.seed, gates)

    def _conclude(self, recorded: Sequence[Event]) -> None:
        for event in recorded:
            if isinstance(event, NodeJudged):
                self._workspaces.conclude(self.history[event.node], self.history)

    def _parent(self, node: Node) -> Node | None:
        return self.history[node.id.parent] if node.id.parent else None

    def _record(self, decide: Callable[[History], Iterable[Event]]) -> list[Event]:
        return [recorded.event for recorded in self._scribe.record(decide)]
