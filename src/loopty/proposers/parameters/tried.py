"""The configurations that were tried, for a model: the best and the newest, within a number of tokens."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from loopty.core.objective import gain
from loopty.core.outcome import Verdict
from loopty.core.parts import Ask
from loopty.core.records import Node
from loopty.kit.fence import fenced, one_line
from loopty.proposers.context.lines import result_words
from loopty.proposers.context.room import fitting
from loopty.proposers.parameters.describing import said

_ROOM = 4_000
"""Tokens."""
_REASON = 160


def tried_text(ask: Ask, parent: Node, most: int) -> str:
    """At most so many, each with its result; the baseline of the parent's code is always among them."""
    nodes = [parent, *(node for node in ask.nodes if node.tree == parent.tree and node.id != parent.id)]
    best = _best_first(ask, nodes)[: -(-most // 2)]
    chosen = {node.id: node for node in (parent, *best, *reversed(nodes))}
    lines = [_line(ask, node) for node in list(chosen.values())[: most + 1]]
    text = "\n".join(fitting(lines, _ROOM))
    return (
        fenced("node, result, configuration: where it started, the best, the newest", text, len(text))
        if text
        else ""
    )


def _best_first(ask: Ask, nodes: Sequence[Node]) -> list[Node]:
    metrics = ask.history.yardstick(ask.run)

    def order(one: Node, other: Node) -> int:
        assert one.outcome
        assert other.outcome
        better_by = gain(one.outcome.metrics, other.outcome.metrics, metrics).amount
        return (better_by < 0) - (better_by > 0)

    comparable = [
        node
        for node in nodes
        if node.outcome
        and node.outcome.finished
        and node.verdict is not Verdict.REJECTED
        and all(metric.name in node.outcome.metrics for metric in metrics)
    ]
    return sorted(comparable, key=functools.cmp_to_key(order)) if metrics else []


def _line(ask: Ask, node: Node) -> str:
    """`1.3 | score 2.41 | {"x": 1.5}`, and what went wrong where something did."""
    params = ", ".join(f'"{name}": {said(value)}' for name, value in node.params.items())
    parts = [node.id.name, result_words(ask.history, node), f"{{{params}}}"]
    if node.outcome and not node.outcome.finished:
        parts.append(one_line(node.outcome.reason, _REASON))
    elif node.verdict is Verdict.REJECTED:
        parts.append(f"rejected: {one_line(node.reason, _REASON)}")
    return " | ".join(part for part in parts if part)
