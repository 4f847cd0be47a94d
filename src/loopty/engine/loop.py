"""The loop: propose, run, judge, remember, until the budget or the user says stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from loopty.domain.declared_types import cut_words
from loopty.domain.errors import Exhausted, Misuse, Taken
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.domain.proposal import Directions, Objection, Proposal, ProposerStall, Refusal, RungChange, fault_of
from loopty.domain.task import Pools
from loopty.domain.task_tables import NO_ANCHORS, Anchors
from loopty.domain.trial import Pool, Row, Verdict
from loopty.engine import budget, decisions
from loopty.engine.budget import Finish, SessionLimits
from loopty.engine.open_questions import OpenQuestions, Pace, Question, ReadyAnswer, Reply, RunControl
from loopty.engine.protocols import CommittedFiles, Proposer, Purse, Trial, Workspaces
from loopty.engine.prune_watch import PruneWatch
from loopty.engine.trial_runner import TrialRunner
from loopty.judge.pairs import coin
from loopty.judge.revisions import ask_again, undecided_nodes, was_measured_busy
from loopty.judge.tuning import promised_nodes
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node, parent_refusal
from loopty.record.nodes import Proposals, refuse_proposal
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.search_learning import DirectionsGiven, Paces
from loopty.record.search_summary import RungChanged
from loopty.record.sessions import SessionEnded, SessionStalled
from loopty.record.trials import TrialCounts, Trials


class EventWaits:
    """One task for each of some events; they end with the `with` block."""

    def __init__(self, *events: asyncio.Event) -> None:
        self._tasks: dict[asyncio.Event, asyncio.Task[Literal[True]] | None] = dict.fromkeys(events)

    def __enter__(self) -> EventWaits:
        return self

    def __exit__(self, *error: object) -> None:
        for task in self._tasks.values():
            if task is not None:
                task.cancel()

    def tasks(self) -> set[asyncio.Task[Literal[True]]]:
        """Return tasks of which one is done soon after its event is set; one set before may count, too."""
        for event, task in self._tasks.items():
            if task is None or task.done():
                self._tasks[event] = asyncio.create_task(event.wait())
        return {task for task in self._tasks.values() if task is not None}


def next_undecided(history: History, run: int, pool: Pool) -> Node | None:
    """Find the oldest node whose measurement was interrupted before its verdict; its trial is already paid for."""
    nodes = (history[node] for node in Trials.of(history.runs[run]).undecided if node.parent)
    return next((node for node in nodes if node.pool is pool and node.is_pending), None)


def next_pending(history: History, run: int, pool: Pool) -> Node | None:
    """Find the oldest node that still waits for its first trial."""
    found = history.runs[run]
    if TrialCounts.of(found, pool).started >= Proposals.of(found, pool).nodes:
        return None
    return next(history.waiting_nodes(run, pool), None)


_MAX_RUNG_CHANGES = 16
"""Consecutive changes of rung without a proposal."""


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
        anchors: Anchors = NO_ANCHORS,
        wait_for_quiet: Callable[[Callable[[], bool]], Awaitable[None]] | None = None,
    ) -> None:
        """`wait_for_quiet` waits until others leave the machine alone, as long as what it gets says it may."""
        self._recorder = recorder
        self._run = run
        self._pools = pools
        self._proposers = proposers
        self.trial_runner = trial_runner
        self._workspaces = workspaces
        self._prune_watch = prune_watch
        self._limits = SessionLimits(recorder, run, pools, trial_runner.judging.noise, clock)
        self.questions = OpenQuestions(
            recorder=recorder,
            run=run,
            proposers=proposers,
            purse=purse,
            clock=clock,
            pace=pace,
            trial_slots=self._question_slots,
            anchors=anchors,
        )
        self._requests = RunControl(recorder, run, pools, trial_runner.may_start, self.stop)
        self._owner = owner
        self._clock = clock
        self._wait_for_quiet = wait_for_quiet
        self._cancel = asyncio.Event()
        self._why_stopped = ""
        self._closing = False
        """Whether the session ends: everything under way finishes, and nothing new starts."""
        self._trials: set[asyncio.Task[None]] = set()
        self._trials_ended = 0
        self._waiting: set[Pool] = set()
        """Pools whose proposer has nothing until a trial ends."""
        self._not_ahead: set[Pool] = set()
        """Pools whose proposer has nothing until a trial ends or can start."""
        self._exhausted: dict[Pool, str] = {}
        self._rung_changes: Counter[Pool] = Counter()

    @property
    def history(self) -> History:
        return self._recorder.history

    @property
    def run(self) -> Run:
        return self.history.runs[self._run]

    def _question_slots(self) -> int:
        """Return how many questions may be open at once."""
        said, width = self._pools.questions, self.trial_runner.executor.width
        return self._paces().slots(width) if said == 0 else said or width

    def _paces(self) -> Paces:
        return Paces.of(self.run, Pool.ATTEMPT) or Paces.before_the_first(self.history[self.run.root])

    def latest(self, node: NodeId) -> Row | None:
        """Return the newest row of metrics that a trial of this session has reported."""
        return self._prune_watch.latest(node)

    def stop(self, why: str) -> None:
        """Cancel everything that runs, record it, and end the session."""
        self._why_stopped = self._why_stopped or why
        self._cancel_all()

    def wake(self) -> None:
        """Look again at what can start: the executor has more or fewer slots than before."""
        self._requests.changed.set()

    def _cancel_all(self) -> None:
        self._cancel.set()
        self.questions.cancel()

    async def drive(self) -> Finish:
        """Run trials until something says stop. Whatever happens, the session is closed in the ledger."""
        async with self._recorder.gathering():
            return await self._drive()

    async def _drive(self) -> Finish:
        self._recorder.record(lambda history: decisions.start_session(history, self._run, self._owner))
        self._requests.obey(self._owner, self._clock)
        watch = asyncio.create_task(self._requests.watch(self._owner, self._clock))
        finish = failed = Finish("its process failed", sound=False, resumable=True)
        try:
            finish = await self._measure_baseline() or await self._search_and_confirm()
        except Outage as outage:
            finish = Finish(outage.message, sound=False, resumable=True)
        except Exhausted as end:
            finish = self._limits.finish(str(end))
        except BaseException:
            self._cancel_all()  # after a failure the rest is not worth waiting for
            raise
        finally:
            self._requests.end()
            self._closing = True
            try:
                await self._drain()
            except BaseException:
                finish = failed
                raise
            finally:
                watch.cancel()
                self._recorder.record(lambda _: [SessionEnded(self._run, cut_words(finish.reason))])
        return finish

    async def _measure_baseline(self) -> Finish | None:
        """Measure the baseline where that is not done yet; a Finish when going on makes no sense."""
        root = self.history[self.run.root]
        if root.running:
            raise Misuse(f"another process is measuring the baseline {root.name}: wait for it")
        if root.is_pending:
            await self._run_trials(self.trial_runner.start(root))
            root = self.history[root.id]
        if self._cancel.is_set():
            return self._limits.finish_after_stop(self._why_stopped)
        if root.verdict is not Verdict.KEPT:
            return Finish(f"the baseline {root.name} gave no result: {root.reason}", sound=False)
        return None

    async def _search_and_confirm(self) -> Finish:
        """Search, ask again what is undecided, then measure the best beside the baseline.

        If one is kept, or the best loses its place, the search goes on with what is open.
        """
        while True:
            finish = await self._search()
            if self._cancel.is_set():
                return finish
            if await self._ask_again():
                continue
            runner, pairs = self.trial_runner, self.trial_runner.judging.noise.confirm
            await runner.confirm_best(self._run, pairs, self._prune_watch.watch, self._cancel)
            if self._cancel.is_set() or not next_undecided(self.history, self._run, Pool.ATTEMPT):
                return finish

    async def _ask_again(self) -> bool:
        """Measure undecided nodes again, now that it is quiet, until one is kept or the budget ends."""
        undecided = undecided_nodes(self.history, self._run)
        if self._wait_for_quiet and any(was_measured_busy(self.history[node]) for node in undecided):
            await self._wait_for_quiet(lambda: self._limits.can_ask_again() and not self._cancel.is_set())
        for node in undecided:
            if self._cancel.is_set() or not self._limits.can_ask_again():
                break
            self._recorder.record(lambda history, node=node: ask_again(history, node))  # type: ignore[misc]
            await self._run_trials(self._start_trial(self.history[node]))
            if self.history[node].verdict is Verdict.KEPT:
                return True
        return False

    async def _search(self) -> Finish:
        # A pause, a limit or a stop changes what may start.
        with EventWaits(self._requests.changed, self._cancel) as changes:
            while True:
                self._requests.obey(self._owner, self._clock)
                self._fill_slots()
                if self._cancel.is_set():
                    return self._limits.finish_after_stop(self._why_stopped)
                under_way = {*self._trials, *self.questions.tasks}
                if not under_way and not self._requests.is_paused:
                    return self._limits.finish(self._limits.stop_reason() or self._why_idle())
                self._requests.changed.clear()
                await asyncio.wait({*under_way, *changes.tasks()}, return_when=asyncio.FIRST_COMPLETED)
                await self._recorder.wait_for_ledger()
                self._collect()

    def _fill_slots(self) -> None:
        """Start trials until all their slots are taken; then ask ahead, where a proposer waits for a model.

        What a node still needs for its verdict comes before anything new.
        """
        if self._requests.is_paused:
            return
        width = self.trial_runner.executor.width
        claims: Counter[Pool] = Counter()
        while not self._cancel.is_set() and len(self._trials) + claims.total() < width:
            if trial := self._next_undecided():
                self._run_in_background(trial)
            elif self._limits.over_reason():
                self.questions.drop()
                return
            elif not self._fill_slot(claims):
                break
        most = self._paces().ahead(width) if self._pools.questions is None else self._question_slots()
        for pool in self._proposers if most else ():
            is_asked = pool not in self._not_ahead and not self._cancel.is_set()
            while is_asked and self.questions.can_ask_ahead(pool, most) and self._wants_question(pool):
                self.questions.ask(pool, self._trials_ended, early=True)

    def _fill_slot(self, claims: Counter[Pool]) -> bool:
        """Bring one free slot closer to a trial; False when nothing can be done now.

        The pool that is furthest behind comes first; a coin decides between attempt and control.
        """
        place = {pool: TrialCounts.of(self.run, pool).started + claims[pool] for pool in self._proposers}
        waits = claims.total() > 0 or coin(str(self.run.seed), "control", place.get(Pool.CONTROL, 0))
        for pool in sorted(place, key=lambda pool: (place[pool], (pool is Pool.CONTROL) == waits)):
            if trial := self._next_pending(pool):
                self._run_in_background(trial)
                return True
            if answer := self.questions.take(pool):
                self._use(pool, answer)
                return True
            if self.questions.open_count(pool) == claims[pool]:
                if not self._wants_question(pool):
                    continue
                if not self.questions.can_ask(pool):
                    return False  # no pool overtakes one whose proposer is still answering
                self.questions.ask(pool, self._trials_ended)
            claims[pool] += 1
            return True
        return False

    def _collect(self) -> None:
        """Collect the results of tasks that have ended."""
        for task in [task for task in self._trials if task.done()]:
            self._trials.remove(task)
            self._trials_ended += 1
            self._waiting.clear()
            self._not_ahead.clear()
            task.result()
        for question, task_of_question in self.questions.take_ended():
            self._collect_answer(question, task_of_question)

    def _collect_answer(self, question: Question, task: asyncio.Task[Reply]) -> None:
        if task.cancelled():
            return
        try:
            suggestion, known_event = task.result()
        except Exhausted as end:
            self._exhausted[question.pool] = str(end)
        except Outage as outage:
            self._record_stall(outage, question.since)
            raise
        else:
            if suggestion is not None:
                files = self._commit(suggestion) if isinstance(suggestion, Proposal) else ""
                self.questions.put(question.pool, ReadyAnswer(suggestion, known_event, files))
            elif question.trials_ended == self._trials_ended:
                (self._not_ahead if question.early else self._waiting).add(question.pool)

    def _wants_question(self, pool: Pool) -> bool:
        """Say whether one more proposal of this pool could get a trial."""
        if pool in self._exhausted or pool in self._waiting or self._is_spent(pool):
            return False
        return not self._closing and not self._limits.stop_reason() and not budget.fruitless_reason(self.run, pool)

    def _is_spent(self, pool: Pool) -> bool:
        """Say whether all trials of this pool are spent, or will be on the proposals that are being made."""
        return budget.trial_refusal(self.run, self._requests.pools, pool, self.questions.count(pool)) is not None

    def _next_pending(self, pool: Pool) -> Trial | None:
        """Start the first trial of the oldest node that waits for one; those that were promised one come first."""
        for node in promised_nodes(self.history, self._run, pool):
            if trial := self._start_trial(node):
                return trial
        while not self._is_spent(pool) and (waiting := next_pending(self.history, self._run, pool)):
            if trial := self._start_trial(waiting):
                return trial
        return None

    def _next_undecided(self) -> Trial | None:
        """Start the next measurement of an interrupted node: it is paid for, even when the rest is over."""
        for pool in self._proposers:
            while node := next_undecided(self.history, self._run, pool):
                if trial := self._start_trial(node):
                    return trial
        return None

    def _start_trial(self, node: Node) -> Trial | None:
        """Start the node's next trial; None if its verdict needs none, or another process was faster."""
        with contextlib.suppress(Taken):
            return self.trial_runner.start(node)
        return None

    def _use(self, pool: Pool, answer: ReadyAnswer) -> None:
        """Start the trial of a proposal, or record why there is none: then the proposer is asked again."""
        suggestion = answer.suggestion
        self._rung_changes[pool] = self._rung_changes[pool] + 1 if isinstance(suggestion, RungChange) else 0
        match suggestion:
            case RungChange(rung, name, reason):
                self._record_event(RungChanged(self._run, pool, rung, name, reason))
                if self._rung_changes[pool] >= _MAX_RUNG_CHANGES:
                    proposer = self._proposers[pool].name
                    self._exhausted[pool] = f"{proposer} goes from rung to rung and proposes nothing"
            case Refusal() as refusal:
                self._record_event(refuse_proposal(self._run, pool, refusal))
            case Directions(text):
                self._record_event(DirectionsGiven(self._run, pool, cut_words(text)))
            case ProposerStall():
                pass  # it is on the proposer's account; whoever can go on is asked next
            case Proposal() as proposal:
                if trial := self._add(proposal, pool, answer):
                    self._run_in_background(trial)

    def _record_stall(self, outage: Outage, since: float) -> None:
        """Close the session because a model is unavailable: recorded once, however many wait for it."""
        if not self._closing:
            self._closing = True
            self._record_event(SessionStalled(self._run, cut_words(str(outage)), self._clock() - since))

    def _add(self, proposal: Proposal, pool: Pool, answer: ReadyAnswer) -> Trial | None:
        """Add the node of a proposal before anything of it runs; None when it gets no trial now."""
        files = answer.files
        if isinstance(files, str):
            self._record_event(refuse_proposal(self._run, pool, proposal.as_refusal(files, Objection.FORBIDDEN)))
            return None

        def add(history: History) -> list[Event]:
            return decisions.add_node(history, proposal, files, pool, known_event=answer.known_event)

        try:
            return self.trial_runner.trial(self.trial_runner.add_and_start(add))
        except Taken:  # another process has spent the last attempt: the node waits
            self._recorder.record(add)
            return None

    def _commit(self, proposal: Proposal) -> CommittedFiles | str:
        """Commit the proposal, or tell why it is not allowed."""
        parent = self.history[proposal.parent]
        if reason := parent_refusal(parent) or fault_of(proposal) or self._workspaces.refusal(parent, proposal):
            return reason
        return self._workspaces.commit(parent, proposal.edits, f"{proposal.operator}: {proposal.summary}")

    def _run_in_background(self, trial: Trial) -> None:
        self._trials.add(asyncio.create_task(self._run_trials(trial)))

    async def _run_trials(self, trial: Trial | None) -> None:
        """Run the trials of a node, from the first to its verdict."""
        since = self._clock()
        try:
            await self.trial_runner.run_until_verdict(trial, self._prune_watch.watch, self._cancel)
        except Outage as outage:
            self._record_stall(outage, since)
            raise

    async def _drain(self) -> None:
        """Wait for everything under way; open questions were cancelled if the session was stopped."""
        ended = await asyncio.gather(*self._trials, *self.questions.tasks, return_exceptions=True)
        self._trials = set()
        for result in ended:
            is_expected = isinstance(result, Outage | Exhausted | asyncio.CancelledError)
            if isinstance(result, BaseException) and not is_expected:
                raise result

    def _record_event(self, event: Event) -> None:
        self._recorder.record(lambda _: [event])

    def _why_idle(self) -> str:
        """Tell why no pool can start another trial."""
        why = self._exhausted.get(Pool.ATTEMPT) or self._limits.why_idle()
        return why or f"{self._proposers[Pool.ATTEMPT].name} has nothing to propose"
