"""Metrics that the verifier gives: how often it prefers a node's artifact to the baseline's."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from hashlib import sha256

from loopty.domain.launch import SandboxError
from loopty.domain.model import RoleModel
from loopty.domain.objective import Direction
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.pool import Pool
from loopty.domain.role_spec import JudgedMetric
from loopty.engine.protocols import Executor, OnMetrics, Trial
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.verifiers.comparison import SAME_RESULT, Preference, compare, result_tokens
from loopty.verifiers.verifier_question import VerifierModel, run_unless_stopped


class JudgedExecutor:
    """An executor that has the verifier compare the artifacts of finished trials."""

    def __init__(
        self,
        executor: Executor,
        metrics: Sequence[JudgedMetric],
        role_model: RoleModel,
        traces: Callable[[Trial], SafeFolder],
        max_prompt_tokens: int,
    ) -> None:
        """`traces` gives the folder with a trial's kept $EVO_TRACES_DIR.

        No prompt is longer than `max_prompt_tokens`. Raises Misuse when that is too little for a question.
        """
        self.machine = executor.machine
        self._executor = executor
        self._metrics = metrics
        self._verifier = VerifierModel(role_model, max_prompt_tokens)
        self._traces = traces
        self._preferences: dict[tuple[str, ...], Preference] = {}
        self._locks: defaultdict[tuple[str, ...], asyncio.Lock] = defaultdict(asyncio.Lock)
        for metric in metrics:
            result_tokens(self._verifier, metric)

    @property
    def width(self) -> int:
        return self._executor.width

    async def execute(self, trial: Trial, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:
        """Run the trial and add the judged metrics.

        Raises Exhausted and Outage when the verifier is unavailable: that says nothing about the node.
        """
        # An audit uses another split than the baseline; a check changes no state and costs nothing.
        if not trial.pool.rules.verifier_metrics:
            return await self._executor.execute(trial, seen, cancel)
        for metric in self._metrics:  # an earlier, interrupted trial of the node may have left its artifact
            self._traces(trial).file(metric.artifact).remove()
        outcome = await self._executor.execute(trial, seen, cancel)
        for metric in self._metrics:
            if outcome.is_finished:
                outcome = await self._with_metric(metric, trial, outcome, cancel)
        return outcome

    async def _with_metric(
        self, metric: JudgedMetric, trial: Trial, outcome: Outcome, cancel: asyncio.Event
    ) -> Outcome:
        """The outcome with this metric, replacing a value that the benchmark may have reported under its name."""
        artifact = _content(self._traces(trial).file(metric.artifact))
        if artifact is None:
            reason = (
                f"it left no {metric.artifact} in $EVO_TRACES_DIR for {metric.name} (only task_*.json are kept)"
            )
            return replace(outcome, ending=Ending.FAILED, reason=reason)
        preference: Preference | None = SAME_RESULT
        if trial.node.id != trial.root.id:
            preference = await run_unless_stopped(self._preference(metric, trial, artifact), cancel)
        if preference is None:
            return Outcome(Ending.CANCELLED, reason="stopped on request", seconds=outcome.seconds)
        swaps = f"{metric.name} swaps"
        return replace(
            outcome,
            metrics={**outcome.metrics, metric.name: preference.win_share, swaps: preference.swap_share},
            directions={**outcome.directions, metric.name: Direction.MAX, swaps: Direction.MIN},
        )

    async def _preference(self, metric: JudgedMetric, trial: Trial, artifact: bytes) -> Preference:
        """How often the verifier prefers the artifact to the baseline's. Equal pairs are compared only once."""
        file = self._traces(replace(trial, node=trial.root, number=1, pool=Pool.ATTEMPT)).file(metric.artifact)
        baseline = _content(file)
        if baseline is None:
            raise SandboxError(
                f"the baseline's artifact for {metric.name} is gone ({file.shown_path}): start a new run"
            )
        if artifact == baseline:
            return SAME_RESULT
        key = metric.name, sha256(artifact).hexdigest(), sha256(baseline).hexdigest()
        async with self._locks[key]:
            if key not in self._preferences:
                rng = random.Random(f"{trial.seed} {metric.name} {trial.node.id}")
                result, reference = artifact.decode(errors="replace"), baseline.decode(errors="replace")
                self._preferences[key] = await compare(
                    self._verifier, metric, result, reference, trial.node.id, rng
                )
        return self._preferences[key]


def _content(file: SafeFile) -> bytes | None:
    try:
        return file.read()
    except OSError:
        return None
