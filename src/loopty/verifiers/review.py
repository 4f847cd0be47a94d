"""Reviews a node that the metric would keep: does it break the rules? It can object, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopty.core.errors import Exhausted
from loopty.core.history import History
from loopty.core.model import Line, Prompt
from loopty.core.outcome import Ending, Outcome, Pool
from loopty.core.parts import Trial
from loopty.core.records import Node
from loopty.kit.fence import one_line
from loopty.kit.scrub import cleaned
from loopty.verifiers.asking import LISTED, Fields, answered, chosen, listed, question, reasoning, unless_stopped
from loopty.verifiers.rules import told
from loopty.verifiers.showing import claim, parameter_lines, shown

OPERATOR = "review"
MOST_CHARS = 80_000
"""Of both differences together, where the model has room for so many."""

_LONGEST_REASON = 400
_DUTY = """You are the verifier of an automatic optimisation. A change has won by the benchmark's own measure, \
which is not yours to question or to correct. You are asked one thing: does the change keep the rules? A change \
that is surprising, ugly or risky keeps them; one that only looks better because it breaks a rule does not. \
Object only where you can name the rule and the lines."""

Patch = Callable[[str, str], bytes]
"""The difference of two commits."""


@dataclass(frozen=True, slots=True)
class _Said:
    passed: bool
    reason: str


class Reviewer:
    """Implements the Reviewer protocol of the core."""

    def __init__(
        self,
        line: Line,
        mode: str,
        statement: str,
        rules: str,
        history: Callable[[], History],
        patch: Patch,
        most_chars: int = MOST_CHARS,
    ) -> None:
        self.mode = mode
        self._line = line
        self._told = told(statement, rules)
        self._history = history
        self._patch = patch
        self._most_chars = most_chars // 2

    async def review(self, trial: Trial, cancel: asyncio.Event) -> Outcome:
        try:
            outcome = await unless_stopped(self._reviewed(trial), cancel)
        except Exhausted as end:
            return Outcome(Ending.FAILED, reason=str(end))
        return outcome or Outcome(Ending.CANCELLED, reason="stopped on request")

    async def _reviewed(self, trial: Trial) -> Outcome:
        history, node = self._history(), trial.node
        parent = history[node.id.parent] if node.id.parent else trial.root
        changes = [await self._change(parent, node)]
        if parent.id != trial.root.id:
            changes.append(await self._change(trial.root, node))
        text = "\n\n".join((self._told, _claim(history, trial), *self._shown(parent, trial, changes)))
        said = await answered(self._line, _prompt(text), OPERATOR, node.id, _read)
        if said is None:
            return Outcome(Ending.FAILED, reason="the verifier's reply could not be read, twice")
        unseen = max(len(change) for change in changes) - self._most_chars
        partly = f" (it did not see {unseen:,} characters of the change)" if unseen > 0 else ""
        return Outcome(Ending.FINISHED if said.passed else Ending.REFUSED, reason=said.reason + partly)

    async def _change(self, before: Node, after: Node) -> str:
        if before.commit == after.commit:
            return ""
        return cleaned(
            (await asyncio.to_thread(self._patch, before.commit, after.commit)).decode(errors="replace")
        )

    def _shown(self, parent: Node, trial: Trial, changes: list[str]) -> Iterator[str]:
        """What the candidate is, as data."""
        node = trial.node
        yield claim(node.operator, node.summary)
        for before, change in zip((parent, trial.root), changes, strict=False):
            name = "the baseline" if before.id == trial.root.id else f"its parent, node {before.id}"
            text = "\n".join((*parameter_lines(before.params, node.params), change or "no file differs"))
            yield shown(f"the change against {name}", text, self._most_chars)


def _prompt(text: str) -> Prompt:
    asked = (
        f'{text}\n\nDoes the change keep the rules? Answer as {{"reasoning": "…", "breaks": ["the rule that it '
        'breaks, and where", …], "verdict": "pass" or "fail"}.'
    )
    verdict: Fields = {"type": "string", "enum": ["pass", "fail"]}
    return question(_DUTY, asked, {"breaks": LISTED, "verdict": verdict})


def _read(fields: Fields) -> _Said:
    why, breaks = reasoning(fields), listed(fields, "breaks")
    passed = chosen(fields, "verdict", {"pass": True, "fail": False})
    if passed and breaks:
        raise ValueError("the verdict is `pass`, and `breaks` names what it breaks")
    return _Said(passed, one_line("; ".join(breaks) or why, _LONGEST_REASON))


def _claim(history: History, trial: Trial) -> str:
    """What the benchmark measured, which is not in question."""
    node = trial.node
    assert node.outcome is not None
    fingerprint = node.outcome.fingerprint
    best = history.runs[node.id.run].account(Pool.ATTEMPT).champions.get(fingerprint)
    known = {"the baseline": trial.root, "the best so far": history[best] if best else None, "this change": node}
    lines = ["What the benchmark measured:"]
    for metric in history.yardstick(node.id.run):
        values = [
            f"{name} {result.outcome.metrics[metric.name]:g}"
            for name, other in known.items()
            if other and (result := other.result(fingerprint)) and metric.name in result.outcome.metrics
        ]
        better = "more" if metric.direction.sign > 0 else "less"
        lines.append(f"- {one_line(metric.name, 100)} ({better} is better): {', '.join(values)}")
    return "\n".join(lines)
