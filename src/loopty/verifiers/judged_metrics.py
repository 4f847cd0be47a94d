"""Metrics that the verifier gives: how often it prefers what a node left to what the baseline left."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

from loopty.domain.launch import SandboxError
from loopty.domain.model import RoleModel
from loopty.domain.objective import Direction
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.pool import Pool
from loopty.domain.task import JudgedMetric
from loopty.engine.protocols import Executor, OnMetrics, Trial
from loopty.verifiers.comparison import ITSELF, Preference, preferred, room
from loopty.verifiers.verifier_question import Asking, unless_stopped

M = TypeVar("M")


class JudgedExecutor(Generic[M]):
    """An executor that has the verifier compare what finished trials left. `machine` is the executor's own."""

    def __init__(
        self,
        executor: Executor,
        machine: M,
        judged: Sequence[JudgedMetric],
        line: RoleModel,
        traces: Callable[[Trial], Path],
        most_tokens: int,
    ) -> None:
        """`traces` is the folder with what loopty has kept of $EVO_TRACES_DIR of a trial.

        No prompt is longer than `most_tokens`. Raises Misuse where that is too little for a question.
        """
        self.width = executor.width
        self.machine = machine
        self._executor = executor
        self._judged = judged
        self._asking = Asking(line, most_tokens)
        self._traces = traces
        self._known: dict[tuple[str, ...], Preference] = {}
        self._one_at_a_time: defaultdict[tuple[str, ...], asyncio.Lock] = defaultdict(asyncio.Lock)
        for metric in judged:
            room(self._asking, metric)

    async def execute(self, trial: Trial, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:
        """Raises Exhausted and Outage when there is no verifier to be had: then nothing is said of the node."""
        # An audit sees another split than the baseline did; a check changes no state and costs nothing.
        if not trial.pool.rules.verifier_metrics:
            return await self._executor.execute(trial, seen, cancel)
        for judged in self._judged:  # an earlier trial of the node, broken off, may have left one
            (self._traces(trial) / judged.artifact).unlink(missing_ok=True)
        outcome = await self._executor.execute(trial, seen, cancel)
        for judged in self._judged:
            if outcome.is_finished:
                outcome = await self._with(judged, trial, outcome, cancel)
        return outcome

    async def _with(self, judged: JudgedMetric, trial: Trial, outcome: Outcome, cancel: asyncio.Event) -> Outcome:
        """The outcome with this metric, which is the verifier's alone to report."""
        mine = _content(self._traces(trial) / judged.artifact)
        if mine is None:
            reason = f"it left no {judged.artifact} below $EVO_TRACES_DIR for {judged.name} (task_*.json are kept)"
            return replace(outcome, ending=Ending.FAILED, reason=reason)
        found: Preference | None = ITSELF
        if trial.node.id != trial.root.id:
            found = await unless_stopped(self._preferred(judged, trial, mine), cancel)
        if found is None:
            return Outcome(Ending.CANCELLED, reason="stopped on request", seconds=outcome.seconds)
        swaps = f"{judged.name} swaps"
        return replace(
            outcome,
            metrics={**outcome.metrics, judged.name: found.share, swaps: found.swaps},
            directions={**outcome.directions, judged.name: Direction.MAX, swaps: Direction.MIN},
        )

    async def _preferred(self, judged: JudgedMetric, trial: Trial, mine: bytes) -> Preference:
        place = self._traces(replace(trial, node=trial.root, number=1, pool=Pool.ATTEMPT)) / judged.artifact
        theirs = _content(place)
        if theirs is None:
            raise SandboxError(f"what the baseline left for {judged.name} is gone ({place}): start a new run")
        if mine == theirs:
            return ITSELF
        key = judged.name, sha256(mine).hexdigest(), sha256(theirs).hexdigest()
        async with self._one_at_a_time[key]:
            if key not in self._known:
                rng = random.Random(f"{trial.seed} {judged.name} {trial.node.id}")
                ours, others = mine.decode(errors="replace"), theirs.decode(errors="replace")
                self._known[key] = await preferred(self._asking, judged, ours, others, trial.node.id, rng)
        return self._known[key]


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
