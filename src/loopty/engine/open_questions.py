"""What is open between the loop and others: questions to proposers, and what processes ask of a run."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.proposal import Suggestion
from loopty.domain.task import Pools
from loopty.domain.task_tables import MOST_WORKERS, NO_ANCHORS, Anchors
from loopty.domain.trial import Pool
from loopty.engine import budget
from loopty.engine.protocols import Ask, CommittedFiles, Proposer, Purse
from loopty.kit.records import Record
from loopty.record.nodes import Proposals
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.sessions import ChangedLimits, Session, pools_in_force
from loopty.record.trials import Trials, trial_parts

Pace = Callable[[], Coroutine[Any, Any, None]]
"""Waits until the next proposal may be asked for."""


class Question(Record):
    """A question as it was asked."""

    pool: Pool
    since: float
    trials_ended: int
    """How many trials of the session had ended when it was asked."""
    early: bool
    """Whether no slot was free for a trial of the answer."""


class ReadyAnswer(Record):
    """A suggestion that waits until a trial can start."""

    suggestion: Suggestion
    known_event: int
    """The last event that the proposer knew of."""
    files: CommittedFiles | str = ""
    """The commit of a proposal, made while trials run so that none waits for it, or why it is not allowed."""


Reply = tuple[Suggestion | None, int]
"""What a proposer suggests, and the last event that it knew of."""


class OpenQuestions:
    """Asks the proposers of one session. An answer waits until it is taken, in the order of arrival."""

    def __init__(
        self,
        recorder: Recorder,
        run: int,
        proposers: Mapping[Pool, Proposer],
        purse: Purse,
        clock: Callable[[], float],
        pace: Pace | None = None,
        trial_slots: Callable[[], int] = lambda: MOST_WORKERS,
        anchors: Anchors = NO_ANCHORS,
    ) -> None:
        """Ask no proposer more questions at once than there are `trial_slots`."""
        self._recorder = recorder
        self._run = run
        self._proposers = proposers
        self._purse = purse
        self._clock = clock
        self._pace = pace
        self._trial_slots = trial_slots
        self._anchors = anchors
        self._open: dict[asyncio.Task[Reply], Question] = {}
        self._done: list[asyncio.Task[Reply]] = []
        """In the order in which they ended."""
        self._answers: dict[Pool, deque[ReadyAnswer]] = {pool: deque() for pool in proposers}
        self._next_position: dict[Pool, int] = {}
        """The position after the last one that was asked for."""

    @property
    def tasks(self) -> set[asyncio.Task[Reply]]:
        """Return the questions that have no answer yet."""
        return set(self._open)

    def slots(self, pool: Pool) -> int:
        """Return how many questions the pool's proposer answers at once; 0 if it never waits for a model."""
        return min(getattr(self._proposers[pool], "width", 0), self._trial_slots())

    def open_count(self, pool: Pool) -> int:
        return sum(question.pool is pool for question in self._open.values())

    def count(self, pool: Pool) -> int:
        """Open questions and answers that nobody has taken: each may become a trial."""
        return self.open_count(pool) + len(self._answers[pool])

    def can_ask(self, pool: Pool) -> bool:
        """Say whether the pool's proposer answers one more question now."""
        return self.open_count(pool) < max(self.slots(pool), 1)

    def can_ask_ahead(self, pool: Pool, most: int) -> bool:
        """Say whether the next question may be asked although no trial of its answer can start yet.

        A proposer that never waits would lose what running trials teach it, for nothing. Where proposals have a
        pace, slots are meant to be idle.
        """
        return self._pace is None and self.count(pool) < min(most, self.slots(pool))

    def ask(self, pool: Pool, trials_ended: int, early: bool = False) -> None:
        """Ask the pool's proposer; `early` says that no slot is free for a trial of the answer."""
        task = asyncio.create_task(self._reply(pool, early))
        task.add_done_callback(self._done.append)
        self._open[task] = Question(pool, self._clock(), trials_ended, early)

    def put(self, pool: Pool, answer: ReadyAnswer) -> None:
        """Let an answer wait until it is taken."""
        self._answers[pool].append(answer)

    def take(self, pool: Pool) -> ReadyAnswer | None:
        """Take the oldest answer that waits, or None."""
        return self._answers[pool].popleft() if self._answers[pool] else None

    def take_ended(self) -> Iterator[tuple[Question, asyncio.Task[Reply]]]:
        """Remove the questions that have ended, in that order."""
        while self._done:
            task = self._done.pop(0)
            yield self._open.pop(task), task

    def cancel(self) -> None:
        """Cancel open questions. A reply that was paid for stays in the archive of calls, for a later session."""
        for task in self._open:
            task.cancel()

    def drop(self) -> None:
        """Give up every question, and every answer that waits."""
        self.cancel()
        for answers in self._answers.values():
            answers.clear()

    async def _reply(self, pool: Pool, early: bool) -> Reply:
        if self._pace:
            await self._pace()
        self._recorder.record_waiting()  # what was paid for replies decides what is asked
        known_event = self._recorder.history.number
        return await self._proposers[pool].propose(self._make_ask(pool, early)), known_event

    def _make_ask(self, pool: Pool, early: bool) -> Ask:
        """Make the next question to the pool's proposer; questions asked at the same time differ in position."""
        run = self._recorder.history.runs[self._run]
        answered = Proposals.of(run, pool).answer_count
        ahead = max(self._next_position.get(pool, 0) - answered, 0) if self.slots(pool) > 1 else 0
        self._next_position[pool] = answered + ahead + 1
        running = (trial_parts(name)[0] for name in Trials.of(run).running)
        generator_at = _generators(run, pool)
        ask = Ask(
            history=self._recorder.history,
            run=self._run,
            pool=pool,
            generator_at=generator_at,
            purse=self._purse,
            ahead=ahead,
            early=early,
            running=frozenset(running),
            anchors=self._anchors,
        )
        assert ask.position == answered + ahead  # read now: it belongs to the moment of the question
        return ask


def _generators(run: Run, pool: Pool) -> Callable[[int], random.Random]:
    seed = run.seed
    return lambda position: random.Random(f"{seed} {pool} {position}")


_WATCH_SECONDS = 0.5


class RunControl:
    """Obeys requests, and stops the session when the time of the run is over; a pause does not count."""

    def __init__(
        self, recorder: Recorder, run: int, pools: Pools, may_start: asyncio.Event, stop: Callable[[str], None]
    ) -> None:
        """`may_start` is cleared during a pause; `stop` ends the session, for a reason."""
        self._recorder, self._run, self._task_pools = recorder, run, pools
        self._may_start, self._stop = may_start, stop
        self.changed = asyncio.Event()
        """Set when a pause or a limit of the run has changed."""
        self._known: tuple[bool, ChangedLimits] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_paused(self) -> bool:
        return not self._may_start.is_set()

    @property
    def pools(self) -> Pools:
        """Return the limits that are in force."""
        return pools_in_force(self._found, self._task_pools)

    @property
    def _found(self) -> Run:
        return self._recorder.history.runs[self._run]

    async def watch(self, owner: str, clock: Callable[[], float]) -> None:
        """Obey until this is cancelled. `owner` is the process that drives the session."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            with contextlib.suppress(Misuse):  # a ledger that cannot be read ends the next trial, with this reason
                await self._recorder.wait_for_ledger()
                self._recorder.refresh()
            self.obey(owner, clock)

    def obey(self, owner: str, clock: Callable[[], float]) -> None:
        """Obey what is recorded by now."""
        session, before = Session.of(self._found), self._known
        if session.stop_request and session.driver == owner:
            self._stop(session.stop_request)
        (self._may_start.clear if session.is_paused else self._may_start.set)()
        self._known = session.is_paused, ChangedLimits.of(self._found)
        if before != self._known:
            self._set_deadline(clock())
            self.changed.set()

    def end(self) -> None:
        """Forget the time limit: the session ends."""
        if self._deadline:
            self._deadline.cancel()

    def _set_deadline(self, now: float) -> None:
        self.end()
        limit = self.pools.wall_seconds
        if limit is not None and not self.is_paused:
            left = max(limit - budget.session_seconds(self._found, now), 0.0)
            loop, why = asyncio.get_running_loop(), f"the time limit of {limit:g} s is reached"
            self._deadline = loop.call_later(left, self._stop, why)
