"""The tried configurations in a prompt: the best and the newest, within a token budget."""

from __future__ import annotations

from loopty.domain.objective import Metric
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.engine.protocols import Ask
from loopty.kit.fence import fence_text, one_line
from loopty.kit.token_budget import lines_within
from loopty.proposers.context.node_line import result_words
from loopty.proposers.parameters.best_and_newest import Ranking
from loopty.proposers.parameters.parameter_prompts import value_text
from loopty.record.node_record import Node

_LIMIT_TOKENS = 4_000
_LONGEST_REASON = 160


class TriedPoints:
    """Lists at most `limit` configurations, and the first one of the parent's code."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ranking: tuple[tuple[int, Pool, str, tuple[Metric, ...]], Ranking] | None = None
        """The ranking for the code of the last question."""

    def text(self, ask: Ask, parent: Node) -> str:
        """The first configuration, then the best, then the newest, each with its result."""
        ranking, history = self._current_ranking(ask, parent), ask.history
        best = ranking.best(history, parent, -(-self._limit // 2))
        chosen = {node.id: node for node in (parent, *best, *ranking.newest(history))}
        lines = [_point_line(ask, node) for node in list(chosen.values())[: self._limit + 1]]
        text = "\n".join(lines_within(lines, _LIMIT_TOKENS))
        return (
            fence_text("node, result, configuration: where it started, the best, the newest", text, len(text))
            if text
            else ""
        )

    def _current_ranking(self, ask: Ask, parent: Node) -> Ranking:
        key = ask.run, ask.pool, parent.tree, ask.history.counting_metrics(ask.run)
        if self._ranking is None or self._ranking[0] != key:
            self._ranking = key, Ranking(*key, limit=self._limit + 1)
        ranking = self._ranking[1]
        ranking.update(ask.history)
        return ranking


def _point_line(ask: Ask, node: Node) -> str:
    """`1.3 | score 2.41 | {"x": 1.5}`, followed by the reason of a failure or a rejection."""
    params = ", ".join(f'"{name}": {value_text(value)}' for name, value in node.params.items())
    parts = [node.name, result_words(ask.history, node), f"{{{params}}}"]
    if node.outcome and not node.outcome.is_finished:
        parts.append(one_line(node.outcome.reason, _LONGEST_REASON))
    elif node.verdict is Verdict.REJECTED:
        parts.append(f"rejected: {one_line(node.reason, _LONGEST_REASON)}")
    return " | ".join(part for part in parts if part)
