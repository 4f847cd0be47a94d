"""Reviews a node that the metric would keep: does it break the rules? It can object, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loopty.domain.errors import Exhausted
from loopty.domain.model import Prompt, RoleModel
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.pool import Pool
from loopty.engine.protocols import Trial
from loopty.kit.fence import one_line
from loopty.kit.scrub import strip_hidden
from loopty.kit.token_budget import cut_to
from loopty.kit.token_count import tokens_of_data
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents
from loopty.verifiers.shown_change import FencedExcerpt, excerpt, parameter_lines, proposer_claim
from loopty.verifiers.verifier_question import (
    STRING_LIST,
    Fields,
    VerifierModel,
    question,
    read_choice,
    read_list,
    read_reasoning,
    run_unless_stopped,
)
from loopty.verifiers.verifier_rules import task_text

OPERATOR = "review"
MAX_CHARS = 40_000
"""Of either difference, where the model has room for so many."""

_MAX_REASON_CHARS = 400
_DUTY = """You are the verifier of an automatic optimisation. A change has won by the benchmark's own measure, \
which is not yours to question or to correct. You are asked one thing: does the change keep the rules? A change \
that is surprising, ugly or risky keeps them; one that only looks better because it breaks a rule does not. \
Object only where you can name the rule and the lines."""

DiffCommits = Callable[[str, str], bytes]
"""The difference of two commits."""


@dataclass(frozen=True, slots=True)
class _Change:
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class _Opinion:
    passed: bool
    reason: str


class WinnerReviewer:
    """Implements the Reviewer protocol of the core."""

    def __init__(
        self,
        role_model: RoleModel,
        mode: str,
        statement: str,
        rules: str,
        history: Callable[[], History],
        diff_commits: DiffCommits,
        max_prompt_tokens: int,
    ) -> None:
        """No prompt is longer than `most_tokens`. Raises Misuse where that is too little for a question."""
        self.mode = mode
        self._verifier = VerifierModel(role_model, max_prompt_tokens)
        self._task_text = task_text(statement, rules, max_prompt_tokens // 8)
        self._data_tokens = self._verifier.data_tokens(_prompt(self._task_text))
        self._history = history
        self._diff_commits = diff_commits

    async def review(self, trial: Trial, cancel: asyncio.Event) -> Outcome:
        try:
            outcome = await run_unless_stopped(self._review(trial), cancel)
        except Exhausted as end:
            return Outcome(Ending.FAILED, reason=str(end))
        return outcome or Outcome(Ending.CANCELLED, reason="stopped on request")

    async def _review(self, trial: Trial) -> Outcome:
        history, node = self._history(), trial.node
        parent = history[node.id.parent] if node.id.parent else trial.root
        befores = dict.fromkeys((parent.id, trial.root.id))
        changes = [self._change_since(trial, history[before]) for before in befores]
        measured = cut_to(_measurements(history, trial), self._data_tokens // 4, tokens_of_data)
        claimed = proposer_claim(node.operator, node.summary, self._data_tokens // 8)
        parts = list(_excerpts(changes, self._data_tokens - tokens_of_data(measured) - tokens_of_data(claimed)))
        text = "\n\n".join(filter(None, (self._task_text, measured, claimed, *(part.text for part in parts))))
        said = await self._verifier.ask(_prompt(text), OPERATOR, node.id, _read_opinion)
        if said is None:
            return Outcome(Ending.FAILED, reason="the verifier's reply could not be read, twice")
        unseen = max(part.omitted_chars for part in parts)
        partly = f" (it did not see {unseen:,} characters of the change)" if unseen else ""
        return Outcome(Ending.FINISHED if said.passed else Ending.REFUSED, reason=said.reason + partly)

    def _change_since(self, trial: Trial, before: Node) -> _Change:
        node = trial.node
        files = "no file differs"
        if before.commit != node.commit:
            patch = self._diff_commits(before.commit, node.commit)
            files = strip_hidden(patch.decode(errors="replace")) or files
        name = "the baseline" if before.id == trial.root.id else f"its parent, node {before.id.name}"
        return _Change(
            f"the change against {name}", "\n".join((*parameter_lines(before.params, node.params), files))
        )


def _excerpts(changes: Sequence[_Change], max_tokens: int) -> Iterator[FencedExcerpt]:
    """The changes, as data: each has an equal share of the room that those before it leave."""
    for number, change in enumerate(changes):
        part = excerpt(change.label, change.text, MAX_CHARS, max_tokens // (len(changes) - number))
        max_tokens -= part.tokens
        yield part


def _prompt(text: str) -> Prompt:
    asked = (
        f'{text}\n\nDoes the change keep the rules? Answer as {{"reasoning": "…", "breaks": ["the rule that it '
        'breaks, and where", …], "verdict": "pass" or "fail"}.'
    )
    verdict: Fields = {"type": "string", "enum": ["pass", "fail"]}
    return question(_DUTY, asked, {"breaks": STRING_LIST, "verdict": verdict})


def _read_opinion(fields: Fields) -> _Opinion:
    why, breaks = read_reasoning(fields), read_list(fields, "breaks")
    passed = read_choice(fields, "verdict", {"pass": True, "fail": False})
    if passed and breaks:
        raise ValueError("the verdict is `pass`, and `breaks` names what it breaks")
    return _Opinion(passed, one_line("; ".join(breaks) or why, _MAX_REASON_CHARS))


def _measurements(history: History, trial: Trial) -> str:
    """What the benchmark measured, which is not in question."""
    node = trial.node
    assert node.outcome is not None
    fingerprint = node.outcome.fingerprint
    best = Incumbents.of(history.runs[node.id.run], Pool.ATTEMPT).by_fingerprint.get(fingerprint)
    known = {"the baseline": trial.root, "the best so far": history[best] if best else None, "this change": node}
    lines = ["What the benchmark measured:"]
    for metric in history.counting_metrics(node.id.run):
        values = [
            f"{name} {result.outcome.metrics[metric.name]:g}"
            for name, other in known.items()
            if other and (result := other.result(fingerprint)) and metric.name in result.outcome.metrics
        ]
        better = "more" if metric.direction.sign > 0 else "less"
        lines.append(f"- {one_line(metric.name, 100)} ({better} is better): {', '.join(values)}")
    return "\n".join(lines)
