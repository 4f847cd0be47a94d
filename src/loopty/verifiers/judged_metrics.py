"""Metrics that the verifier gives: how often it prefers what a node left to what the baseline left."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from loopty.domain.launch import SandboxError
from loopty.domain.model import RoleModel
from loopty.domain.objective import Direction
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.pool import Pool
from loopty.domain.task import JudgedMetric
from loopty.engine.protocols import Executor, OnMetrics, Trial
from loopty.verifiers.comparison import SAME_RESULT, Preference, compare, result_tokens
from loopty.verifiers.verifier_question import VerifierModel, run_unless_stopped


class JudgedExecutor:
    """An executor that has the verifier compare what finished trials left. `machine` is the executor's own."""

    def __init__(
        self,
        executor: Executor,
        metrics: Sequence[JudgedMetric],
        role_model: RoleModel,
        traces: Callable[[Trial], Path],
        max_prompt_tokens: int,
    ) -> None:
        """`traces` is the folder with what loopty has kept of $EVO_TRACES_DIR of a trial.

        No prompt is longer than `most_tokens`. Raises Misuse where that is too little for a question.
        """
        self.width = executor.width
        self.machine = executor.machine
        self._executor = executor
        self._metrics = metrics
        self._verifier = VerifierModel(role_model, max_prompt_tokens)
        self._traces = traces
        self._preferences: dict[tuple[str, ...], Preference] = {}
        self._locks: defaultdict[tuple[str, ...], asyncio.Lock] = defaultdict(asyncio.Lock)
        for metric in metrics:
            result_tokens(self._verifier, metric)

    async def execute(self, trial: Trial, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:
        """Raises Exhausted and Outage when there is no verifier to be had: then nothing is said of the node."""
        # An audit sees another split than the baseline did; a check changes no state and costs nothing.
        if not trial.pool.rules.verifier_metrics:
            return await self._executor.execute(trial, seen, cancel)
        for judged in self._metrics:  # an earlier trial of the node, broken off, may have left one
            (self._traces(trial) / judged.artifact).unlink(missing_ok=True)
        outcome = await self._executor.execute(trial, seen, cancel)
        for judged in self._metrics:
            if outcome.is_finished:
                outcome = await self._with_metric(judged, trial, outcome, cancel)
        return outcome

    async def _with_metric(
        self, metric: JudgedMetric, trial: Trial, outcome: Outcome, cancel: asyncio.Event
    ) -> Outcome:
        """The outcome with this metric, which is the verifier's alone to report."""
        mine = _content(self._traces(trial) / metric.artifact)
        if mine is None:
            reason = f"it left no {metric.artifact} below $EVO_TRACES_DIR for {metric.name} (task_*.json are kept)"
            return replace(outcome, ending=Ending.FAILED, reason=reason)
        found: Preference | None = SAME_RESULT
        if trial.node.id != trial.root.id:
            found = await run_unless_stopped(self._preference(metric, trial, mine), cancel)
        if found is None:
            return Outcome(Ending.CANCELLED, reason="stopped on request", seconds=outcome.seconds)
        swaps = f"{metric.name} swaps"
        return replace(
            outcome,
            metrics={**outcome.metrics, metric.name: found.win_share, swaps: found.swap_share},
            directions={**outcome.directions, metric.name: Direction.MAX, swaps: Direction.MIN},
        )

    async def _preference(self, metric: JudgedMetric, trial: Trial, mine: bytes) -> Preference:
        place = self._traces(replace(trial, node=trial.root, number=1, pool=Pool.ATTEMPT)) / metric.artifact
        theirs = _content(place)
        if theirs is None:
            raise SandboxError(f"what the baseline left for {metric.name} is gone ({place}): start a new run")
        if mine == theirs:
            return SAME_RESULT
        key = metric.name, sha256(mine).hexdigest(), sha256(theirs).hexdigest()
        async with self._locks[key]:
            if key not in self._preferences:
                rng = random.Random(f"{trial.seed} {metric.name} {trial.node.id}")
                ours, others = mine.decode(errors="replace"), theirs.decode(errors="replace")
                self._preferences[key] = await compare(self._verifier, metric, ours, others, trial.node.id, rng)
        return self._preferences[key]


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
