"""The loop: propose, run, judge, remember, until the budget or the user says stop."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from loopty.core import budget, decisions
from loopty.core.curve import Curve, Row, primary
from loopty.core.errors import Exhausted, Misuse, Taken
from loopty.core.events import Event, NodeAdded, ProposalRefused, SessionEnded
from loopty.core.history import History
from loopty.core.ids import NodeId
from loopty.core.measure import Measure
from loopty.core.objective import Directions, Metric
from loopty.core.outcome import Ending, Pool, Verdict
from loopty.core.parts import Ask, Curves, Proposer, Pruner, Seen, Trial, Workspaces
from loopty.core.proposal import Proposal
from loopty.core.purse import Purse
from loopty.core.records import Node, Run, trial_parts
from loopty.core.scribe import Scribe
from loopty.core.task import Pools

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finish:
    """How a session ended. `sound` is False when nothing succeeded."""

    reason: str
    sound: bool
    resumable: bool = False


class Loop:
    """Drives one run of one task in this process."""

    def __init__(
        self,
        scribe: Scribe,
        run: int,
        pools: Pools,
        lanes: Mapping[Pool, Proposer],
        measure: Measure,
        workspaces: Workspaces,
        pruner: Pruner | None,
        curves: Curves,
        owner: str,
        clock: Callable[[], float],
    ) -> None:
        self._scribe = scribe
        self._run = run
        self._pools = pools
        self._lanes = lanes
        self._measure = measure
        self._workspaces = workspaces
        self._pruner = pruner
        self._read_curve = curves
        self._owner = owner
        self._clock = clock
        self._purse = Purse(scribe, run, pools, owner)
        self._cancel = asyncio.Event()
        self._why_stopped = ""
        self._flying: set[asyncio.Task[None]] = set()
        self._exhausted: dict[Pool, str] = {}
        self._curves: dict[NodeId, tuple[Sequence[Row], Directions]] = {}
        self._peers: dict[NodeId, Curve] = {}

    @property
    def history(self) -> History:
        return self._scribe.history

    @property
    def run(self) -> Run:
        return self.history.runs[self._run]

    def stop(self, why: str) -> None:
        """Cancel what runs, record it, and end the session."""
        self._why_stopped = self._why_stopped or why
        self._cancel.set()

    def latest(self, node: NodeId) -> Row | None:
        """The newest row that a trial of this session has reported."""
        rows = self._curves.get(node, ((), {}))[0]
        return rows[-1] if rows else None

    async def drive(self) -> Finish:
        """Run trials until something says stop; whatever happens, the session is closed in the ledger."""
        self._record(lambda history: decisions.session_started(history, self._run, self._owner))
        timer = self._deadline()
        finish = Finish("its process failed", sound=False, resumable=True)
        try:
            finish = await self._baseline() or await self._search()
        except BaseException:
            self._cancel.set()  # what flies beside the failure is not worth waiting for
            raise
        finally:
            if timer:
                timer.cancel()
            await self._land()
            self._record(lambda _: [SessionEnded(self._run, finish.reason)])
        return finish

    async def _baseline(self) -> Finish | None:
        """Measure the baseline if that is still to be done; a Finish when it makes no sense to go on."""
        root = self.history[self.run.root]
        if root.running:
            raise Misuse(f"the baseline {root.id} is being measured by another process: wait for it")
        if root.pending:
            await self._fly(self._measure.started(root))
            root = self.history[root.id]
        if self._cancel.is_set():
            return self._stopped()
        if root.verdict is not Verdict.KEPT:
            return Finish(f"the baseline (node {root.id}) gave no result: {root.reason}", sound=False)
        return None

    async def _search(self) -> Finish:
        while True:
            while not self._cancel.is_set() and len(self._flying) < self._measure.executor.width:
                trial = self._next_undecided() or (None if self._over() else await self._next_trial())
                if trial is None:
                    break
                self._flying.add(asyncio.create_task(self._fly(trial)))
            if self._cancel.is_set():
                return self._stopped()
            if not self._flying:
                return self._finish(self._over() or self._spent())
            done, _ = await asyncio.wait(self._flying, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._flying.remove(task)
                task.result()

    async def _next_trial(self) -> Trial | None:
        """Start the next trial of the pool that is furthest behind; None when none can start now."""
        pools = sorted(self._lanes, key=lambda pool: self.run.account(pool).started)
        for pool in pools:
            while not (pool in self._exhausted or budget.spent(self.run, self._pools, pool)):
                node = decisions.next_pending(self.history, self._run, pool) or await self._conceive(pool)
                if node is None:
                    break
                if trial := self._started(node):
                    return trial
        return None

    def _next_undecided(self) -> Trial | None:
        """The next measurement of a node that was broken off: whatever else is over, that is paid for."""
        for pool in self._lanes:
            while node := decisions.next_undecided(self.history, self._run, pool):
                if trial := self._started(node):
                    return trial
        return None

    def _started(self, node: Node) -> Trial | None:
        """The node's next trial; None when it needs none any more, or another process was faster."""
        with contextlib.suppress(Taken):
            return self._measure.started(node)
        return None

    async def _conceive(self, pool: Pool) -> Node | None:
        """A new node of this pool, or None when the proposer has nothing now."""
        while not self._cancel.is_set() and not budget.fruitless(self.run, pool):
            ask = Ask(self.history, self._run, pool, self._seeded(pool), self._busy(pool), self._purse)
            known = self.history.number
            try:
                proposal = await self._unless_stopped(self._lanes[pool].propose(ask))
            except Exhausted as end:
                self._exhausted[pool] = str(end)
                return None
            if proposal is None:
                return None
            node = await self._add(proposal, pool, asked_after=known)
            if node is not None:
                return node
        return None

    def _busy(self, pool: Pool) -> frozenset[str]:
        """The paths that are being changed by trials of this pool, whoever runs them."""
        flying = (trial_parts(name)[0] for name, flight in self.run.flights.items() if flight.pool is pool)
        return frozenset(path for node in flying for path in self.history[node].edits)

    async def _add(self, proposal: Proposal, pool: Pool, asked_after: int) -> Node | None:
        """The proposal's node, committed before anything of it runs; None when it is refused."""
        parent = self.history[proposal.parent]
        if reason := await asyncio.to_thread(self._workspaces.refusal, parent, proposal):
            self._record(lambda _: [ProposalRefused(self._run, pool, proposal.operator, reason)])
            return None
        committed = await asyncio.to_thread(
            self._workspaces.commit, parent, proposal.edits, f"{proposal.operator}: {proposal.summary}"
        )
        (event,) = self._record(
            lambda history: decisions.node_added(history, proposal, committed, pool, asked_after=asked_after)
        )
        return self.history[event.node] if isinstance(event, NodeAdded) else None

    async def _fly(self, trial: Trial | None) -> None:
        """From the first trial of a node to its verdict."""
        await self._measure.decided(trial, self._watch, self._cancel)

    def _watch(self, trial: Trial) -> Seen:
        """What the executor calls with the metrics stream while the trial runs."""

        def seen(rows: Sequence[Row], directions: Directions) -> str | None:
            if trial.pool is Pool.REPEAT:  # what is measured again is worth its full time
                return None
            self._curves[trial.node.id] = rows, directions
            if self._pruner is None or not rows:
                return None
            yardstick = self.history.yardstick(self._run)
            metric = (yardstick or self.run.objective.resolved(rows[-1].metrics, directions))[0]
            curve = primary(rows, metric.name, metric.direction)
            if not curve.points:  # the metric that counts is not reported on the way
                return None
            peers = [
                self._peer(node, metric)
                for node in self.history.nodes(self._run, trial.pool)
                if node.outcome and node.outcome.finished and node.id != trial.node.id
            ]
            return self._pruner.doomed(curve, [peer for peer in peers if peer.points])

        return seen

    def _peer(self, node: Node, metric: Metric) -> Curve:
        """The curve of a finished node; made once, because every report of every trial is held against it."""
        if node.id not in self._peers:
            rows, _ = self._curves.pop(node.id) if node.id in self._curves else self._read_curve(node)
            self._peers[node.id] = primary(rows, metric.name, metric.direction)
        return self._peers[node.id]

    async def _land(self) -> None:
        """Wait for everything in flight."""
        flying, self._flying = self._flying, set()
        results = await asyncio.gather(*flying, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work; None when the session was told to stop first."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._cancel.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            task.cancel()

    def _record(self, decide: Callable[[History], Iterable[Event]]) -> list[Event]:
        return [recorded.event for recorded in self._scribe.decide(decide)]

    def _seeded(self, pool: Pool) -> Callable[[int], random.Random]:
        return lambda position: random.Random(f"{self.run.seed} {pool} {position}")

    def _deadline(self) -> asyncio.TimerHandle | None:
        if self._pools.wall_seconds is None:
            return None
        left = max(self._pools.wall_seconds - self.run.seconds, 0.0)
        why = f"the wall clock of {self._pools.wall_seconds:g} s is spent"
        return asyncio.get_running_loop().call_later(left, self.stop, why)

    def _over(self) -> str | None:
        seconds = self.run.seconds_before + self._clock() - self.run.session_from
        return budget.over(self.history, self.run, self._pools, seconds)

    def _spent(self) -> str:
        """Why no pool can start another trial."""
        pool = Pool.ATTEMPT
        return (
            self._exhausted.get(pool)
            or budget.spent(self.run, self._pools, pool)
            or budget.fruitless(self.run, pool)
            or f"{self._lanes[pool].name} has nothing to propose"
        )

    def _stopped(self) -> Finish:
        return Finish(self._why_stopped, self._sound(), resumable=self._over() is None)

    def _finish(self, reason: str) -> Finish:
        return Finish(reason, self._sound())

    def _sound(self) -> bool:
        """Whether any attempt finished, or none was asked for: by the budget, or by the target."""
        finished = self.run.account(Pool.ATTEMPT).endings.get(Ending.FINISHED, 0)
        asked_for = self._pools.attempts > 0 and not budget.reached(self.history, self.run, self._pools)
        return finished > 1 or (finished == 1 and not asked_for)
