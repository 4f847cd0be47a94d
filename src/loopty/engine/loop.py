"""The loop: propose, run, judge, remember, until the budget or the user says stop."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loopty.domain.errors import Exhausted, Misuse, Taken
from loopty.domain.model import Outage
from loopty.domain.outcome import Ending, Pool, Verdict
from loopty.domain.proposal import Objection, Proposal, Refusal, RungChange
from loopty.domain.task import Pools
from loopty.engine import budget, decisions
from loopty.engine.protocols import Ask, CommittedFiles, ReadCurve, Proposer, Pruner, Purse, Trial, Workspaces
from loopty.engine.prune_watch import PruneWatch
from loopty.engine.trials import TrialRunner
from loopty.record.events import Event, NodeAdded, SessionEnded, SessionStalled, RungChanged
from loopty.record.history import History
from loopty.record.recorder import Recorder
from loopty.record.records import Node, Run, trial_parts

Pace = Callable[[], Coroutine[Any, Any, None]]
"""Waits until the next proposal may be asked for."""

_MOST_STEPS = 16
"""Of a ladder, one after the other, without a proposal in between."""


@dataclass(frozen=True, slots=True)
class Finish:
    """How a session ended. `sound` is False when nothing succeeded."""

    reason: str
    sound: bool
    resumable: bool = False


@dataclass(frozen=True, slots=True)
class _Thought:
    """A proposer at work; `landings` counts the trials that had ended when it began."""

    pool: Pool
    landings: int


@dataclass(frozen=True, slots=True)
class _Born:
    """A node that was added, and the trial that it starts with unless there is none left."""

    trial: Trial | None


class Loop:
    """Drives one run of one task in this process."""

    def __init__(
        self,
        scribe: Recorder,
        run: int,
        pools: Pools,
        lanes: Mapping[Pool, Proposer],
        measure: TrialRunner,
        workspaces: Workspaces,
        pruner: Pruner | None,
        curves: ReadCurve,
        purse: Purse,
        owner: str,
        clock: Callable[[], float],
        pace: Pace | None = None,
    ) -> None:
        self._scribe = scribe
        self._run = run
        self._pools = pools
        self._lanes = lanes
        self._measure = measure
        self._workspaces = workspaces
        self._lookout = PruneWatch(lambda: scribe.history, pruner, curves)
        self.latest = self._lookout.latest
        self._owner = owner
        self._clock = clock
        self._purse = purse
        self._pace = pace
        self._cancel = asyncio.Event()
        self._why_stopped = ""
        self._closing = False
        """Whether the session ends: what is under way comes to its end, and nothing is begun."""
        self._flying: set[asyncio.Task[None]] = set()
        self._thinking: dict[asyncio.Task[_Born | None], _Thought] = {}
        self._landings = 0
        self._positions: dict[Pool, int] = {}
        """Behind the last one asked for."""
        self._waiting: set[Pool] = set()
        """Pools whose proposer has nothing until a trial ends."""
        self._exhausted: dict[Pool, str] = {}

    @property
    def history(self) -> History:
        return self._scribe.history

    @property
    def run(self) -> Run:
        return self.history.runs[self._run]

    def stop(self, why: str) -> None:
        """Cancel what runs, record it, and end the session."""
        self._why_stopped = self._why_stopped or why
        self._give_up()

    def _give_up(self) -> None:
        """Tell trials to end, and proposers to stop thinking."""
        self._cancel.set()
        for thought in self._thinking:
            thought.cancel()

    async def drive(self) -> Finish:
        """Run trials until something says stop; whatever happens, the session is closed in the ledger."""
        self._record(lambda history: decisions.start_session(history, self._run, self._owner))
        timer = self._deadline()
        finish = failed = Finish("its process failed", sound=False, resumable=True)
        try:
            finish = await self._baseline() or await self._search()
        except Outage as outage:
            finish = Finish(outage.message, sound=False, resumable=True)
        except Exhausted as end:
            finish = self._finish(str(end))
        except BaseException:
            self._give_up()  # what flies beside the failure is not worth waiting for
            raise
        finally:
            if timer:
                timer.cancel()
            self._closing = True
            try:
                await self._land()
            except BaseException:
                finish = failed
                raise
            finally:
                self._record(lambda _: [SessionEnded(self._run, finish.reason)])
        return finish

    async def _baseline(self) -> Finish | None:
        """Measure the baseline if that is still to be done; a Finish when it makes no sense to go on."""
        root = self.history[self.run.root]
        if root.running:
            raise Misuse(f"the baseline {root.id} is being measured by another process: wait for it")
        if root.is_pending:
            await self._fly(self._measure.start(root))
            root = self.history[root.id]
        if self._cancel.is_set():
            return self._stopped()
        if root.verdict is not Verdict.KEPT:
            return Finish(f"the baseline (node {root.id}) gave no result: {root.reason}", sound=False)
        return None

    async def _search(self) -> Finish:
        while True:
            self._fill()
            if self._cancel.is_set():
                return self._stopped()
            if not self._flying and not self._thinking:
                return self._finish(self._over() or self._spent())
            await asyncio.wait({*self._flying, *self._thinking}, return_when=asyncio.FIRST_COMPLETED)
            self._landed()

    def _fill(self) -> None:
        """Let trials fly and proposers think until all slots are taken, or there is nothing to do."""
        while not self._cancel.is_set() and len(self._flying) + len(self._thinking) < self._measure.executor.width:
            if trial := self._next_undecided():
                self._flying.add(asyncio.create_task(self._fly(trial)))
            elif self._over() or not self._advanced():
                return

    def _landed(self) -> None:
        """Take in what has ended; what its proposer thought of flies on."""
        for flight in [task for task in self._flying if task.done()]:
            self._flying.remove(flight)
            self._landings += 1
            self._waiting.clear()
            flight.result()
        for task in [task for task in self._thinking if task.done()]:
            thought = self._thinking.pop(task)
            born = None if task.cancelled() else task.result()
            if born is None and thought.landings == self._landings:
                self._waiting.add(thought.pool)
            elif born and born.trial:
                self._flying.add(asyncio.create_task(self._fly(born.trial)))

    def _advanced(self) -> bool:
        """Start the next trial or thought of the pool that is furthest behind; False when none can start now."""
        behind: int | None = None
        for pool in sorted(self._lanes, key=self._begun):
            if pool in self._exhausted or self._promised(pool):
                continue
            begun = self._begun(pool)
            if behind is not None and begun >= behind:
                continue  # a pool that thinks is not overtaken by another
            while not self._promised(pool) and (node := decisions.next_pending(self.history, self._run, pool)):
                if trial := self._started(node):
                    self._flying.add(asyncio.create_task(self._fly(trial)))
                    return True
            if pool in self._waiting or self._promised(pool) or budget.why_fruitless(self.run, pool):
                continue
            if self._thoughts(pool) < self._width(pool):
                self._thinking[asyncio.create_task(self._conceive(pool))] = _Thought(pool, self._landings)
                return True
            behind = begun
        return False

    def _width(self, pool: Pool) -> int:
        """How often the proposer of this pool may be asked at once."""
        return getattr(self._lanes[pool], "width", 1)

    def _thoughts(self, pool: Pool) -> int:
        """How many proposals of this pool are being thought of."""
        return sum(thought.pool is pool for thought in self._thinking.values())

    def _promised(self, pool: Pool) -> bool:
        """Whether all trials of this pool are spent, or will be on what is being thought of."""
        return budget.pool_limit_reached(self.run, self._pools, pool, self._thoughts(pool)) is not None

    def _begun(self, pool: Pool) -> int:
        return self.run.account(pool).started + self._thoughts(pool)

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
            return self._measure.start(node)
        return None

    async def _conceive(self, pool: Pool) -> _Born | None:
        """A new node of this pool, or None when the proposer has nothing now."""
        steps = 0
        while steps < _MOST_STEPS:
            if self._pace:
                await self._pace()
            if not self._may_ask(pool):
                return None
            known, since = self.history.number, self._clock()
            try:
                suggestion = await self._lanes[pool].propose(self._ask(pool))
            except Exhausted as end:
                self._exhausted[pool] = str(end)
                return None
            except Outage as outage:
                self._stall(outage, since)
                raise
            steps = steps + 1 if isinstance(suggestion, RungChange) else 0
            match suggestion:
                case None:
                    return None
                case RungChange(rung, name, reason):
                    self._tell(RungChanged(self._run, pool, rung, name, reason))
                case Refusal() as refusal:
                    self._refuse(pool, refusal)
                case Proposal() as proposal:
                    if born := self._add(proposal, pool, asked_after=known):
                        return born
        self._exhausted[pool] = f"{self._lanes[pool].name} goes from rung to rung and proposes nothing"
        return None

    def _may_ask(self, pool: Pool) -> bool:
        """Whether a proposal is wanted still: much can end while a proposer thinks."""
        over = self._closing or self._cancel.is_set() or self._over()
        return not over and budget.why_fruitless(self.run, pool) is None

    def _stall(self, outage: Outage, since: float) -> None:
        """The session ends for want of a model: told once, however many wait for it."""
        if not self._closing:
            self._closing = True
            self._tell(SessionStalled(self._run, str(outage), self._clock() - since))

    def _ask(self, pool: Pool) -> Ask:
        """What the proposer of this pool is asked now; thoughts side by side have positions of their own."""
        asked = self.run.account(pool).asked
        ahead = max(self._positions.get(pool, 0) - asked, 0) if self._width(pool) > 1 else 0
        self._positions[pool] = asked + ahead + 1
        return Ask(self.history, self._run, pool, self._seeded(pool), self._busy(pool), self._purse, ahead)

    def _refuse(self, pool: Pool, refusal: Refusal) -> None:
        self._tell(decisions.refuse_proposal(self._run, pool, refusal))

    def _busy(self, pool: Pool) -> frozenset[str]:
        """The paths that are being changed by trials of this pool, whoever runs them."""
        flying = (trial_parts(name)[0] for name, flight in self.run.flights.items() if flight.pool is pool)
        return frozenset(path for node in flying for path in self.history[node].edits)

    def _add(self, proposal: Proposal, pool: Pool, asked_after: int) -> _Born | None:
        """The proposal's node, committed before anything of it runs; None when it is refused."""
        parent = self.history[proposal.parent]
        committed = self._committed(parent, proposal)
        if isinstance(committed, str):
            self._refuse(pool, proposal.as_refusal(committed, Objection.FORBIDDEN))
            return None

        def added(history: History) -> list[Event]:
            return decisions.add_node(history, proposal, committed, pool, asked_after=asked_after)

        try:
            recorded = self._measure.add_and_start(added)
        except Taken:  # another process has spent the last attempt: the node waits
            recorded = self._record(added)
        if not any(isinstance(event, NodeAdded) for event in recorded):
            return None
        return _Born(self._measure.trial(recorded))

    def _committed(self, parent: Node, proposal: Proposal) -> CommittedFiles | str:
        """The proposal as a commit, or why it is not allowed."""
        if reason := self._workspaces.refusal(parent, proposal):
            return reason
        message = f"{proposal.operator}: {proposal.summary}"
        return self._workspaces.commit(parent, proposal.edits, message)

    async def _fly(self, trial: Trial | None) -> None:
        """From the first trial of a node to its verdict."""
        since = self._clock()
        try:
            await self._measure.run_until_verdict(trial, self._lookout.watch, self._cancel)
        except Outage as outage:
            self._stall(outage, since)
            raise

    async def _land(self) -> None:
        """Wait for everything in flight; what is still thought of is given up when the session is stopped."""
        thoughts = await asyncio.gather(*self._thinking, return_exceptions=True)
        born = [self._fly(thought.trial) for thought in thoughts if isinstance(thought, _Born)]
        flown = await asyncio.gather(*self._flying, *born, return_exceptions=True)
        self._thinking, self._flying = {}, set()
        for result in (*thoughts, *flown):
            given_up = isinstance(result, Outage | Exhausted | asyncio.CancelledError)
            if isinstance(result, BaseException) and not given_up:
                raise result

    def _tell(self, event: Event) -> None:
        self._record(lambda _: [event])

    def _record(self, decide: Callable[[History], Iterable[Event]]) -> list[Event]:
        return [recorded.event for recorded in self._scribe.record(decide)]

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
        return budget.why_over(self.history, self.run, self._pools, seconds)

    def _spent(self) -> str:
        """Why no pool can start another trial."""
        pool = Pool.ATTEMPT
        return (
            self._exhausted.get(pool)
            or budget.pool_limit_reached(self.run, self._pools, pool)
            or budget.why_fruitless(self.run, pool)
            or f"{self._lanes[pool].name} has nothing to propose"
        )

    def _stopped(self) -> Finish:
        return Finish(self._why_stopped, self._sound(), resumable=self._over() is None)

    def _finish(self, reason: str) -> Finish:
        return Finish(reason, self._sound())

    def _sound(self) -> bool:
        """Whether any attempt finished, or none was asked for: by the budget, or by the target."""
        finished = self.run.account(Pool.ATTEMPT).endings.get(Ending.FINISHED, 0)
        asked_for = self._pools.attempts > 0 and not budget.target_reached(self.history, self.run, self._pools)
        return finished > 1 or (finished == 1 and not asked_for)
