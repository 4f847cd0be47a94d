"""The loop: propose, run, judge, remember, until the budget or the user says stop."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from loopty.domain.curve import Row
from loopty.domain.errors import Exhausted, Misuse, Taken
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.domain.proposal import Objection, Proposal, Refusal, RungChange
from loopty.domain.task import Pools
from loopty.engine import budget, decisions
from loopty.engine.protocols import Ask, CommittedFiles, Proposer, Purse, Trial, Workspaces
from loopty.engine.prune_watch import PruneWatch
from loopty.engine.trial_runner import TrialRunner
from loopty.judge.confirmation import seconds_to_confirm
from loopty.kit.dataclass import dataclass
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import Proposals
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.rungs import RungChanged
from loopty.record.sessions import Session, SessionEnded, SessionStalled
from loopty.record.trials import TrialCounts, Trials, trial_parts

Pace = Callable[[], Coroutine[Any, Any, None]]
"""Waits until the next proposal may be asked for."""

_MAX_RUNG_CHANGES = 16
"""Consecutive changes of rung without a proposal."""


@dataclass(frozen=True, slots=True)
class Finish:
    """How a session ended. `sound` is False when nothing succeeded."""

    reason: str
    sound: bool
    resumable: bool = False


@dataclass(frozen=True, slots=True)
class _Pending:
    """A question that a proposer has not answered yet."""

    pool: Pool
    trials_ended: int
    """How many trials of the session had ended when the question was asked."""


@dataclass(frozen=True, slots=True)
class _NewNode:
    """A node that was added, with its first trial; None where the budget has no trial left."""

    trial: Trial | None


class Loop:
    """Drives one run of one task in this process."""

    def __init__(
        self,
        recorder: Recorder,
        run: int,
        pools: Pools,
        proposers: Mapping[Pool, Proposer],
        trial_runner: TrialRunner,
        workspaces: Workspaces,
        prune_watch: PruneWatch,
        purse: Purse,
        owner: str,
        clock: Callable[[], float],
        pace: Pace | None = None,
    ) -> None:
        self._recorder = recorder
        self._run = run
        self._pools = pools
        self._proposers = proposers
        self._trial_runner = trial_runner
        self._workspaces = workspaces
        self._prune_watch = prune_watch
        self._purse = purse
        self._owner = owner
        self._clock = clock
        self._pace = pace
        self._cancel = asyncio.Event()
        self._why_stopped = ""
        self._closing = False
        """Whether the session ends: everything under way finishes, and nothing new starts."""
        self._trials: set[asyncio.Task[None]] = set()
        self._proposals: dict[asyncio.Task[_NewNode | None], _Pending] = {}
        self._trials_ended = 0
        self._next_position: dict[Pool, int] = {}
        """The position after the last one that was asked for."""
        self._waiting: set[Pool] = set()
        """Pools whose proposer has nothing until a trial ends."""
        self._exhausted: dict[Pool, str] = {}

    @property
    def history(self) -> History:
        return self._recorder.history

    @property
    def run(self) -> Run:
        return self.history.runs[self._run]

    def latest(self, node: NodeId) -> Row | None:
        """The newest row of metrics that a trial of this session has reported."""
        return self._prune_watch.latest(node)

    def stop(self, why: str) -> None:
        """Cancel everything that runs, record it, and end the session."""
        self._why_stopped = self._why_stopped or why
        self._cancel_all()

    def _cancel_all(self) -> None:
        self._cancel.set()
        for task in self._proposals:
            task.cancel()

    async def drive(self) -> Finish:
        """Run trials until something says stop. Whatever happens, the session is closed in the ledger."""
        self._record(lambda history: decisions.start_session(history, self._run, self._owner))
        timer = self._start_deadline()
        finish = failed = Finish("its process failed", sound=False, resumable=True)
        try:
            finish = await self._measure_baseline() or await self._search_and_confirm()
        except Outage as outage:
            finish = Finish(outage.message, sound=False, resumable=True)
        except Exhausted as end:
            finish = self._finish(str(end))
        except BaseException:
            self._cancel_all()  # after a failure the rest is not worth waiting for
            raise
        finally:
            if timer:
                timer.cancel()
            self._closing = True
            try:
                await self._drain()
            except BaseException:
                finish = failed
                raise
            finally:
                self._record(lambda _: [SessionEnded(self._run, finish.reason)])
        return finish

    async def _measure_baseline(self) -> Finish | None:
        """Measure the baseline where that is not done yet; a Finish when going on makes no sense."""
        root = self.history[self.run.root]
        if root.running:
            raise Misuse(f"another process is measuring the baseline {root.id}: wait for it")
        if root.is_pending:
            await self._run_trials(self._trial_runner.start(root))
            root = self.history[root.id]
        if self._cancel.is_set():
            return self._finish_after_stop()
        if root.verdict is not Verdict.KEPT:
            return Finish(f"the baseline (node {root.id}) gave no result: {root.reason}", sound=False)
        return None

    async def _search_and_confirm(self) -> Finish:
        """Search, then measure the best beside the baseline; if it loses its place, judge what is open again."""
        while True:
            finish = await self._search()
            if self._cancel.is_set():
                return finish
            runner, pairs = self._trial_runner, self._trial_runner.judging.noise.confirm
            await runner.confirm_best(self._run, pairs, self._prune_watch.watch, self._cancel)
            if self._cancel.is_set() or not decisions.next_undecided(self.history, self._run, Pool.ATTEMPT):
                return finish

    async def _search(self) -> Finish:
        while True:
            self._fill_slots()
            if self._cancel.is_set():
                return self._finish_after_stop()
            if not self._trials and not self._proposals:
                return self._finish(self._stop_reason() or self._why_idle())
            await asyncio.wait({*self._trials, *self._proposals}, return_when=asyncio.FIRST_COMPLETED)
            self._collect()

    def _fill_slots(self) -> None:
        """Start trials and ask proposers until all slots are taken, or there is nothing to do."""
        width = self._trial_runner.executor.width
        while not self._cancel.is_set() and len(self._trials) + len(self._proposals) < width:
            if trial := self._next_undecided():
                self._run_in_background(trial)
            elif self._stop_reason() or not self._start_next():
                return

    def _collect(self) -> None:
        """Collect the results of tasks that have ended; a new node starts its first trial."""
        for task in [task for task in self._trials if task.done()]:
            self._trials.remove(task)
            self._trials_ended += 1
            self._waiting.clear()
            task.result()
        for asked in [task for task in self._proposals if task.done()]:
            pending = self._proposals.pop(asked)
            node = None if asked.cancelled() else asked.result()
            if node is None and pending.trials_ended == self._trials_ended:
                self._waiting.add(pending.pool)
            elif node and node.trial:
                self._run_in_background(node.trial)

    def _start_next(self) -> bool:
        """Start a trial or a question for the pool that is furthest behind; False when none can start now."""
        behind: int | None = None
        for pool in sorted(self._proposers, key=self._progress):
            if pool in self._exhausted or self._is_spent(pool):
                continue
            progress = self._progress(pool)
            if behind is not None and progress >= behind:
                continue  # another pool does not overtake one whose proposer is still answering
            while not self._is_spent(pool) and (node := decisions.next_pending(self.history, self._run, pool)):
                if trial := self._start_trial(node):
                    self._run_in_background(trial)
                    return True
            if pool in self._waiting or self._is_spent(pool) or budget.fruitless_reason(self.run, pool):
                continue
            if self._open_questions(pool) < self._width(pool):
                task = asyncio.create_task(self._propose(pool))
                self._proposals[task] = _Pending(pool, self._trials_ended)
                return True
            behind = progress
        return False

    def _width(self, pool: Pool) -> int:
        """How many questions the pool's proposer answers at once."""
        return getattr(self._proposers[pool], "width", 1)

    def _open_questions(self, pool: Pool) -> int:
        return sum(pending.pool is pool for pending in self._proposals.values())

    def _is_spent(self, pool: Pool) -> bool:
        """Whether all trials of this pool are spent, or will be on the proposals that are being made."""
        return budget.trial_refusal(self.run, self._pools, pool, self._open_questions(pool)) is not None

    def _progress(self, pool: Pool) -> int:
        """The number of trials started and of questions still open."""
        return TrialCounts.of(self.run, pool).started + self._open_questions(pool)

    def _next_undecided(self) -> Trial | None:
        """The next measurement of a node that was interrupted: it is paid for, even when the rest is over."""
        for pool in self._proposers:
            while node := decisions.next_undecided(self.history, self._run, pool):
                if trial := self._start_trial(node):
                    return trial
        return None

    def _start_trial(self, node: Node) -> Trial | None:
        """The node's next trial; None when its verdict needs none, or another process was faster."""
        with contextlib.suppress(Taken):
            return self._trial_runner.start(node)
        return None

    async def _propose(self, pool: Pool) -> _NewNode | None:
        """A new node of this pool, or None when the proposer has nothing now."""
        changes = 0
        while changes < _MAX_RUNG_CHANGES:
            if self._pace:
                await self._pace()
            if not self._may_ask(pool):
                return None
            known, since = self.history.number, self._clock()
            try:
                suggestion = await self._proposers[pool].propose(self._ask(pool))
            except Exhausted as end:
                self._exhausted[pool] = str(end)
                return None
            except Outage as outage:
                self._record_stall(outage, since)
                raise
            changes = changes + 1 if isinstance(suggestion, RungChange) else 0
            match suggestion:
                case None:
                    return None
                case RungChange(rung, name, reason):
                    self._record_event(RungChanged(self._run, pool, rung, name, reason))
                case Refusal() as refusal:
                    self._refuse(pool, refusal)
                case Proposal() as proposal:
                    if node := self._add(proposal, pool, known_event=known):
                        return node
        self._exhausted[pool] = f"{self._proposers[pool].name} goes from rung to rung and proposes nothing"
        return None

    def _may_ask(self, pool: Pool) -> bool:
        """Whether a proposal is still wanted: the session or its budget may end while a proposer works."""
        over = self._closing or self._cancel.is_set() or self._stop_reason()
        return not over and budget.fruitless_reason(self.run, pool) is None

    def _record_stall(self, outage: Outage, since: float) -> None:
        """Close the session because a model is unavailable: recorded once, however many wait for it."""
        if not self._closing:
            self._closing = True
            self._record_event(SessionStalled(self._run, str(outage), self._clock() - since))

    def _ask(self, pool: Pool) -> Ask:
        """The next question to the pool's proposer; questions asked at the same time have different positions."""
        answered = Proposals.of(self.run, pool).answer_count
        ahead = max(self._next_position.get(pool, 0) - answered, 0) if self._width(pool) > 1 else 0
        self._next_position[pool] = answered + ahead + 1
        return Ask(self.history, self._run, pool, self._generator_at(pool), self._busy(pool), self._purse, ahead)

    def _refuse(self, pool: Pool, refusal: Refusal) -> None:
        self._record_event(decisions.refuse_proposal(self._run, pool, refusal))

    def _busy(self, pool: Pool) -> frozenset[str]:
        """The paths that running trials of this pool change, in whichever process."""
        running = Trials.of(self.run).running
        nodes = (trial_parts(name)[0] for name, trial in running.items() if trial.pool is pool)
        return frozenset(path for node in nodes for path in self.history[node].edits)

    def _add(self, proposal: Proposal, pool: Pool, known_event: int) -> _NewNode | None:
        """Commit the proposal and add its node before anything of it runs; None when it is refused."""
        parent = self.history[proposal.parent]
        files = self._commit(parent, proposal)
        if isinstance(files, str):
            self._refuse(pool, proposal.as_refusal(files, Objection.FORBIDDEN))
            return None

        def add(history: History) -> list[Event]:
            return decisions.add_node(history, proposal, files, pool, known_event=known_event)

        try:
            recorded = self._trial_runner.add_and_start(add)
        except Taken:  # another process has spent the last attempt: the node waits
            recorded = self._record(add)
        if not any(isinstance(event, NodeAdded) for event in recorded):
            return None
        return _NewNode(self._trial_runner.trial(recorded))

    def _commit(self, parent: Node, proposal: Proposal) -> CommittedFiles | str:
        """The proposal as a commit, or why it is not allowed."""
        if reason := self._workspaces.refusal(parent, proposal):
            return reason
        message = f"{proposal.operator}: {proposal.summary}"
        return self._workspaces.commit(parent, proposal.edits, message)

    def _run_in_background(self, trial: Trial) -> None:
        self._trials.add(asyncio.create_task(self._run_trials(trial)))

    async def _run_trials(self, trial: Trial | None) -> None:
        """Run the trials of a node, from the first to its verdict."""
        since = self._clock()
        try:
            await self._trial_runner.run_until_verdict(trial, self._prune_watch.watch, self._cancel)
        except Outage as outage:
            self._record_stall(outage, since)
            raise

    async def _drain(self) -> None:
        """Wait for everything under way; unanswered questions were cancelled if the session was stopped."""
        proposed = await asyncio.gather(*self._proposals, return_exceptions=True)
        new = [self._run_trials(node.trial) for node in proposed if isinstance(node, _NewNode)]
        ended = await asyncio.gather(*self._trials, *new, return_exceptions=True)
        self._proposals, self._trials = {}, set()
        for result in (*proposed, *ended):
            is_expected = isinstance(result, Outage | Exhausted | asyncio.CancelledError)
            if isinstance(result, BaseException) and not is_expected:
                raise result

    def _record_event(self, event: Event) -> None:
        self._record(lambda _: [event])

    def _record(self, decide: Callable[[History], Iterable[Event]]) -> list[Event]:
        return [recorded.event for recorded in self._recorder.record(decide)]

    def _generator_at(self, pool: Pool) -> Callable[[int], random.Random]:
        return lambda position: random.Random(f"{self.run.seed} {pool} {position}")

    def _start_deadline(self) -> asyncio.TimerHandle | None:
        if self._pools.wall_seconds is None:
            return None
        left = max(self._pools.wall_seconds - Session.of(self.run).seconds, 0.0)
        why = f"the time limit of {self._pools.wall_seconds:g} s is reached"
        return asyncio.get_running_loop().call_later(left, self.stop, why)

    def _stop_reason(self) -> str | None:
        seconds = budget.session_seconds(self.run, self._clock())
        if self._pools.wall_seconds is not None:
            seconds += seconds_to_confirm(self.history, self.run, self._trial_runner.judging.noise)
        return budget.stop_reason(self.history, self.run, self._pools, seconds)

    def _why_idle(self) -> str:
        """Why no pool can start another trial."""
        pool = Pool.ATTEMPT
        return (
            self._exhausted.get(pool)
            or budget.trial_refusal(self.run, self._pools, pool)
            or budget.fruitless_reason(self.run, pool)
            or f"{self._proposers[pool].name} has nothing to propose"
        )

    def _finish_after_stop(self) -> Finish:
        return Finish(self._why_stopped, self._is_sound(), resumable=self._stop_reason() is None)

    def _finish(self, reason: str) -> Finish:
        return Finish(reason, self._is_sound())

    def _is_sound(self) -> bool:
        """Whether any attempt finished, or none was wanted: by the budget, or because the target is reached."""
        finished = TrialCounts.of(self.run, Pool.ATTEMPT).endings.get(Ending.FINISHED, 0)
        wanted = self._pools.attempts > 0 and not budget.target_reason(self.history, self.run, self._pools)
        return finished > 1 or (finished == 1 and not wanted)
