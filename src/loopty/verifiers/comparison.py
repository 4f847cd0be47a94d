"""Which of two results the verifier prefers: asked several times, in both orders, so that order means nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from loopty.domain.ids import NodeId
from loopty.domain.model import Outage, Prompt
from loopty.domain.task import JudgedMetric
from loopty.kit.scrub import strip_hidden
from loopty.verifiers.shown_change import excerpt
from loopty.verifiers.verifier_question import Fields, VerifierModel, question, read_choice, read_reasoning

OPERATOR = "judge"
MAX_CHARS = 24_000
"""Of either result, where the model has room for so many."""

_TIE = 0.5
_DUTY = """You compare two results, A and B, and say which of them is better by one criterion. The order in which \
they stand means nothing, and neither does their length. Where neither is better, it is a tie."""


@dataclass(frozen=True, slots=True)
class Preference:
    win_share: float
    """Of the comparisons that were won, ties half."""
    swap_share: float
    """Share of the pairs in which the answer was another one when the order was swapped."""


SAME_RESULT = Preference(_TIE, 0.0)
"""What comparing a result with itself gives."""


def result_tokens(verifier: VerifierModel, metric: JudgedMetric) -> int:
    """How many tokens of each result a question has room for. Raises Misuse where that is next to nothing."""
    return verifier.data_tokens(_prompt(metric, ())) // 2


async def compare(
    verifier: VerifierModel, metric: JudgedMetric, result: str, baseline: str, node: NodeId, rng: random.Random
) -> Preference:
    """How often mine is preferred to theirs. Raises Exhausted and Outage where that cannot be told."""
    each = result_tokens(verifier, metric)
    answers: list[float | None] = []
    first = False
    for number in range(metric.comparisons):
        first = rng.random() < _TIE if number % 2 == 0 else not first
        a, b = (result, baseline) if first else (baseline, result)
        # Whole, hidden characters apart: many results are one long line, which scrubbing would take as a whole.
        parts = (
            excerpt(f"result {name}", strip_hidden(text), MAX_CHARS, each) for name, text in (("A", a), ("B", b))
        )
        prompt = _prompt(metric, [part.text for part in parts])
        answers.append(await _compare_once(verifier, prompt, first, node))
    found = preference(answers)
    if found is None:
        raise Outage(f"the verifier gave no readable comparison for {metric.name}: is the model up to it?")
    return found


def preference(answers: Sequence[float | None]) -> Preference | None:
    """What the answers come to, or None when there are none; those at 2k and 2k + 1 differ in order alone.

    A pair that does not say the same twice says nothing of the results, and much of the order: it is a tie.
    """
    points: list[float] = []
    swaps = pairs = 0
    for start in range(0, len(answers), 2):
        asked = answers[start : start + 2]
        pair = [answer for answer in asked if answer is not None]
        if len(pair) < len(asked):
            continue  # half a pair is no more than the order it happened to have
        swapped = len(set(pair)) > 1
        points += [_TIE] * len(pair) if swapped else pair
        swaps += swapped
        pairs += len(pair) > 1
    return Preference(sum(points) / len(points), swaps / pairs if pairs else 0.0) if points else None


async def _compare_once(verifier: VerifierModel, prompt: Prompt, result_first: bool, node: NodeId) -> float | None:
    """1 where mine is the better one, 0 where theirs is; None when the reply cannot be read."""

    def read(fields: Fields) -> float:
        read_reasoning(fields)
        return read_choice(fields, "better", {"a": float(result_first), "b": float(not result_first), "tie": _TIE})

    return await verifier.ask(prompt, OPERATOR, node, read)


def _prompt(metric: JudgedMetric, results: Sequence[str]) -> Prompt:
    asked = 'Which is better? Answer as {"reasoning": "…", "better": "A" or "B" or "tie"}.'
    text = "\n\n".join((f"What makes one better than the other:\n{metric.question}", *results, asked))
    return question(_DUTY, text, {"better": {"type": "string", "enum": ["A", "B", "tie"]}})
