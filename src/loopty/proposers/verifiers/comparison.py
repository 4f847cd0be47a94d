"""Has the verifier compare two results in both orders; metrics made of that; several models as one verifier."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from loopty.domain.ids import NodeId
from loopty.domain.launch import SandboxError
from loopty.domain.model import Answer, JudgedMetric, ModelOption, Outage, Prompt, Reply, RoleModel
from loopty.domain.objective import Direction
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.engine.protocols import Executor, OnMetrics, Trial
from loopty.kit.foreign_text import strip_hidden
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.proposers.verifiers.question import (
    Fields,
    VerifierModel,
    excerpt,
    question,
    read_choice,
    read_reasoning,
    run_unless_stopped,
)

OPERATOR = "judge"
MAX_CHARS = 24_000
"""The most that is shown of each result; a small model sees less."""

_TIE = 0.5
_EVEN_ODDS = 0.5
_DUTY = """You compare two results, A and B, and say which of them is better by one criterion. The order in which \
they stand means nothing, and neither does their length. Where neither is better, it is a tie."""


class Preference(Record):
    """How often the verifier prefers one result to another."""

    win_share: float
    """Share of the comparisons that the result won; a tie counts half."""
    swap_share: float
    """Share of the pairs in which the answer changed when the order was swapped."""


SAME_RESULT = Preference(_TIE, 0.0)
"""The preference between a result and itself."""


def result_tokens(verifier: VerifierModel, metric: JudgedMetric) -> int:
    """Return the number of tokens of each result that fit into a question. Raises Misuse when hardly any fit."""
    return verifier.data_tokens(_prompt(metric, ())) // 2


async def compare(
    verifier: VerifierModel, metric: JudgedMetric, result: str, baseline: str, node: NodeId, rng: random.Random
) -> Preference:
    """Ask how often the verifier prefers `result` to `baseline`. Raises Exhausted and Outage if it cannot."""
    max_tokens = result_tokens(verifier, metric)
    answers: list[float | None] = []
    result_first = False
    for number in range(metric.comparisons):
        result_first = rng.random() < _EVEN_ODDS if number % 2 == 0 else not result_first
        a, b = (result, baseline) if result_first else (baseline, result)
        # Only hidden characters are removed: many results are one long line, which scrubbing would remove whole.
        parts = (
            excerpt(f"result {name}", strip_hidden(text), MAX_CHARS, max_tokens)
            for name, text in (("A", a), ("B", b))
        )
        prompt = _prompt(metric, [part.text for part in parts])
        answers.append(await _compare_once(verifier, prompt, result_first, node))
    measured = preference(answers)
    if measured is None:
        raise Outage(f"the verifier gave no readable comparison for {metric.name}: use a more capable model")
    return measured


def preference(answers: Sequence[float | None]) -> Preference | None:
    """Return the preference that the answers show, or None when no answer counts.

    Answers 2k and 2k + 1 are a pair: the same comparison in both orders. A pair that contradicts itself says
    nothing about the results and much about the order: it counts as a tie.
    """
    points: list[float] = []
    swaps = pairs = 0
    for start in range(0, len(answers), 2):
        replies = answers[start : start + 2]
        pair = [answer for answer in replies if answer is not None]
        if len(pair) < len(replies):
            continue  # half a pair may only show the order that it happened to have
        contradicts = len(set(pair)) > 1
        points += [_TIE] * len(pair) if contradicts else pair
        swaps += contradicts
        pairs += len(pair) > 1
    return Preference(sum(points) / len(points), swaps / pairs if pairs else 0.0) if points else None


async def _compare_once(verifier: VerifierModel, prompt: Prompt, result_first: bool, node: NodeId) -> float | None:
    """Return 1 when the verifier prefers the result, 0 the baseline, 0.5 a tie; None if it is unreadable."""

    def read(fields: Fields) -> float:
        read_reasoning(fields)
        return read_choice(fields, "better", {"a": float(result_first), "b": float(not result_first), "tie": _TIE})

    return await verifier.ask(prompt, OPERATOR, node, read)


def _prompt(metric: JudgedMetric, results: Sequence[str]) -> Prompt:
    asked = 'Which is better? Answer as {"reasoning": "…", "better": "A" or "B" or "tie"}.'
    text = "\n\n".join((f"What makes one better than the other:\n{metric.question}", *results, asked))
    return question(_DUTY, text, {"better": {"type": "string", "enum": ["A", "B", "tie"]}})


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
        """Return the outcome with this metric, replacing a value that the benchmark may have reported as it."""
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
        """Return how often the verifier prefers the artifact to the baseline's. Equal pairs are compared once."""
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


class MixedModel:
    """The draw follows from the question alone, so that a resumed run asks the same model."""

    def __init__(self, models: Mapping[ModelOption, RoleModel]) -> None:
        """Take models that all write into one archive."""
        self._models = list(models.values())
        self._weights = [option.weight for option in models]
        self.model = self._models[0].model

    async def ask(
        self, prompt: Prompt, operator: str, node: NodeId | None = None, pool: Pool | None = None
    ) -> Answer:
        # One model makes all comparisons of a node: otherwise its two orders would also be two models. The first
        # message is the question itself: a second try after an unreadable reply stays with its model.
        text = "" if operator == OPERATOR else prompt.messages[0].text
        rng = random.Random(f"{operator} {node} {text}")
        (model,) = rng.choices(self._models, self._weights)
        return await model.ask(prompt, operator, node, pool)

    def reply_of(self, call: str) -> Reply:
        return self._models[0].reply_of(call)
