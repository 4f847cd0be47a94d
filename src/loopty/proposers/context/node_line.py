"""A node in a few lines: its id, operator, summary, result and verdict, and the first lines that it changed."""

from __future__ import annotations

import functools
from collections.abc import Callable

from loopty.domain.ids import NodeId
from loopty.kit.fence import one_line
from loopty.proposers.context.changed_lines import changed_lines
from loopty.proposers.params_text import params_line
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_METRICS = 4
_SUMMARY, _REASON, _NAME = 240, 240, 80
_MAX_CACHED = 1024


_short_line = functools.lru_cache(maxsize=4096)(one_line)


class NodeLines:
    """The lines of each node, cached: the same nodes appear in prompt after prompt."""

    def __init__(self, read_diff: Callable[[Node], str] = lambda _: "") -> None:
        """`read_diff` reads the change of a node to its parent."""
        self._read_diff = read_diff
        self._cache: dict[tuple[NodeId, bool], tuple[Node, str]] = {}
        """The lines, with the record that they were made from."""
        self._changes: dict[NodeId, str] = {}

    def with_change(self, history: History, node: Node, with_reason: bool = True) -> str:
        """`1.3 | diff | unroll the loop | score 2.41 | kept: better than 1 by 0.21 in score (…)`.

        Below it are at most six of the lines that the node changed in its parent.
        """
        key = node.id, with_reason
        known = self._cache.get(key)
        if known is None or known[0] is not node:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            known = self._cache[key] = node, _node_line(history, node, with_reason) + self._change(node)
        return known[1]

    def without_result(self, node: Node) -> str:
        """What the node is and what it changed, for a node whose failure is shown elsewhere."""
        return " | ".join(filter(None, _subject(node))) + self._change(node)

    def _change(self, node: Node) -> str:
        if node.draft or node.id.parent is None:
            return ""
        if node.id not in self._changes:
            if len(self._changes) >= _MAX_CACHED:
                self._changes.clear()
            lines = changed_lines(self._read_diff(node))
            self._changes[node.id] = "".join(f"\n    {line}" for line in lines)
        return self._changes[node.id]


def _subject(node: Node) -> tuple[str, ...]:
    summary = node.summary or (params_line(node.params) if node.params else "")
    return node.name, _short_line(node.operator, _NAME), _short_line(summary, _SUMMARY)


def _node_line(history: History, node: Node, with_reason: bool) -> str:
    failed = node.verdict and node.outcome and not node.outcome.is_finished
    parts = [
        *_subject(node),
        "" if failed else result_words(history, node),  # the verdict's reason has the ending
        _verdict_text(node, with_reason or bool(failed)),
    ]
    return " | ".join(part for part in parts if part)


def result_words(history: History, node: Node, limit: int = _MAX_METRICS) -> str:
    """The counting metrics, or how the trial ended when it reported none."""
    outcome = node.outcome
    if outcome is None:
        return "being tried" if node.verdict is None else ""
    known = [metric.name for metric in history.metrics(node) if metric.name in outcome.metrics]
    if not outcome.is_finished or not known:
        return str(outcome.ending)
    figures = (f"{_short_line(name, _NAME)} {outcome.metrics[name]:.6g}" for name in known[:limit])
    return ", ".join(figures)


def _verdict_text(node: Node, with_reason: bool) -> str:
    if node.verdict is None:
        return ""
    return (
        f"{node.verdict}: {_short_line(node.reason, _REASON)}"
        if with_reason and node.reason
        else str(node.verdict)
    )
