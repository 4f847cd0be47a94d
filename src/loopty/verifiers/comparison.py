"""Has the verifier compare two results several times, in both orders, so that the order has no influence."""

from __future__ import annotations

import random
from collections.abc import Sequence

from loopty.domain.ids import NodeId
from loopty.domain.model import Outage, Prompt
from loopty.domain.role_spec import JudgedMetric
from loopty.kit.records import Record
from loopty.kit.scrub import strip_hidden
from loopty.verifiers.change_excerpt import excerpt
from loopty.verifiers.verifier_question import Fields, VerifierModel, question, read_choice, read_reasoning

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
    """The number of tokens of each result that fit into a question. Raises Misuse when hardly any fit."""
    return verifier.data_tokens(_prompt(metric, ())) // 2


async def compare(
    verifier: VerifierModel, metric: JudgedMetric, result: str, baseline: str, node: NodeId, rng: random.Random
) -> Preference:
    """How often the verifier prefers `result` to `baseline`. Raises Exhausted and Outage when it cannot answer."""
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
    """The preference that the answers show, or None when no answer counts.

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
    """1 when the verifier prefers the result, 0 the baseline, 0.5 a tie; None when its reply cannot be read."""

    def read(fields: Fields) -> float:
        read_reasoning(fields)
        return read_choice(fields, "better", {"a": float(result_first), "b": float(not result_first), "tie": _TIE})

    return await verifier.ask(prompt, OPERATOR, node, read)


def _prompt(metric: JudgedMetric, results: Sequence[str]) -> Prompt:
    asked = 'Which is better? Answer as {"reasoning": "…", "better": "A" or "B" or "tie"}.'
    text = "\n\n".join((f"What makes one better than the other:\n{metric.question}", *results, asked))
    return question(_DUTY, text, {"better": {"type": "string", "enum": ["A", "B", "tie"]}})
