"""The nodes that a sampler learns from: the best and the newest. In a long run the facts say which they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.trial import Ending, Pool, Verdict
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_table import is_about

T = TypeVar("T")
_JudgedNode = tuple[int, int, float]
"""The event of the verdict, the node's handle, and its value: the larger, the better."""

_CAP = 300
"""A sampler's cost grows with the trials it sees: beyond twice this number, only the best and the newest stay."""
_WORST = float("-inf")


class LearnedNodes(Record):
    """The nodes of one pool that a sampler that has seen every verdict would know."""

    judged: Sequence[NodeId]
    undecided: Sequence[NodeId]


def is_too_long(nodes: Sequence[T]) -> bool:
    """Say whether a list of judged nodes has to be shortened."""
    return len(nodes) > 2 * _CAP


def best_and_newest(nodes: Sequence[T], value: Callable[[T], float]) -> list[T]:
    """Return the best and the newest nodes, in their original order."""
    places = range(len(nodes))
    best = sorted(places, key=lambda place: value(nodes[place]), reverse=True)[: _CAP // 2]
    return [nodes[place] for place in sorted({*best, *places[-_CAP // 2 :]})]


def learned_nodes(
    history: History, run: int, pool: Pool, metric: Metric, left_out: int = 0
) -> LearnedNodes | None:
    """Return what a sampler knows after all verdicts, in their order; nodes it forgot are not decoded.

    `left_out` is the handle of a node that it does not learn from.
    None where the facts do not tell it: few nodes, or scores of another metric.
    """
    if not is_too_long(history.nodes_of_pool(run, pool)):
        return None
    verdicts: list[_JudgedNode] = []
    undecided: list[int] = []
    for facts in history.facts(run, pool):
        if facts.handle == left_out:
            continue
        if facts.verdict is None:
            undecided.append(facts.handle)
            continue
        value = _WORST
        if facts.ending == Ending.FINISHED:
            if not is_about(facts.basis, metric.name):
                return None
            if facts.score is not None and facts.verdict != Verdict.REJECTED:
                value = metric.direction.sign * facts.score
        verdicts.append((facts.judged, facts.handle, value))
    verdicts.sort()
    handles = [handle for _, handle, _ in _remembered(verdicts)]
    ids = history.nodes_of_handles([*handles, *undecided])
    return LearnedNodes([ids[handle] for handle in handles], [ids[handle] for handle in undecided])


def _remembered(verdicts: Sequence[_JudgedNode]) -> list[_JudgedNode]:
    """Return what stays of these verdicts if they come one by one and too long a list is shortened."""
    judged: list[_JudgedNode] = []
    start = 0
    while start < len(verdicts):
        stop = start + 2 * _CAP + 1 - len(judged)
        judged += verdicts[start:stop]
        start = stop
        if is_too_long(judged):
            judged = best_and_newest(judged, lambda entry: entry[2])
    return judged
