"""Questions to proposers: which are open, and which answers wait for a trial slot."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from loopty.domain.anchors_spec import NO_ANCHORS, Anchors
from loopty.domain.executor_spec import MOST_WORKERS
from loopty.domain.pool import Pool
from loopty.domain.proposal import Suggestion
from loopty.engine.protocols import Ask, CommittedFiles, Proposer, Purse
from loopty.kit.records import Record
from loopty.record.proposals import Proposals
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
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
        """No proposer is asked more questions at once than there are `trial_slots`."""
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
        """The questions that have no answer yet."""
        return set(self._open)

    def slots(self, pool: Pool) -> int:
        """How many questions the pool's proposer answers at once; 0 if it never waits for a model."""
        return min(getattr(self._proposers[pool], "width", 0), self._trial_slots())

    def open_count(self, pool: Pool) -> int:
        return sum(question.pool is pool for question in self._open.values())

    def count(self, pool: Pool) -> int:
        """Open questions and answers that nobody has taken: each may become a trial."""
        return self.open_count(pool) + len(self._answers[pool])

    def can_ask(self, pool: Pool) -> bool:
        """Whether the pool's proposer answers one more question now."""
        return self.open_count(pool) < max(self.slots(pool), 1)

    def can_ask_ahead(self, pool: Pool) -> bool:
        """Whether the next question may be asked although no trial of its answer can start yet.

        A proposer that never waits would lose what running trials teach it, for nothing. Where proposals have a
        pace, slots are meant to be idle.
        """
        return self._pace is None and self.count(pool) < self.slots(pool)

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
        """The next question to the pool's proposer; questions asked at the same time have different positions."""
        run = self._recorder.history.runs[self._run]
        answered = Proposals.of(run, pool).answer_count
        ahead = max(self._next_position.get(pool, 0) - answered, 0) if self.slots(pool) > 1 else 0
        self._next_position[pool] = answered + ahead + 1
        running = {trial_parts(name)[0]: trial.pool for name, trial in Trials.of(run).running.items()}
        busy = (path for node, of in running.items() if of is pool for path in self._recorder.history[node].edits)
        generator_at = _generators(run, pool)
        ask = Ask(
            self._recorder.history,
            self._run,
            pool,
            generator_at,
            frozenset(busy),
            self._purse,
            ahead,
            early,
            frozenset(running),
            self._anchors,
        )
        assert ask.position == answered + ahead  # read now: it belongs to the moment of the question
        return ask


def _generators(run: Run, pool: Pool) -> Callable[[int], random.Random]:
    seed = run.seed
    return lambda position: random.Random(f"{seed} {pool} {position}")
