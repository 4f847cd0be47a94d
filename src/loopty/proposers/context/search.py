"""The search in a prompt: the goal in words with the results so far, and a digest of a pool's experiments."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, deque
from collections.abc import Collection, Iterator

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Metrics
from loopty.domain.trial import Pool, Verdict
from loopty.engine.protocols import Ask
from loopty.kit.foreign_text import one_line
from loopty.kit.model_text import cut_to, line_tokens, lines_within
from loopty.proposers.context.nodes import NodeLines, result_words
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.trials import Cohorts

_MAX_METRICS = 12
_LONGEST = 120


def goal_text(ask: Ask, statement: str, directive: str, limit_tokens: int) -> str:
    """Say what is wanted, by which metrics, what the user said last, and the results so far.

    The statement and the directive are cut where they are too long, and nothing else.
    """
    words = cut_to(statement.strip(), limit_tokens * 2 // 3) or "Improve the program."
    parts = [words, objective_text(ask)]
    if directive:
        parts.append(f"What the user wants now: {cut_to(directive, limit_tokens // 3)}")
    return "# Goal\n\n" + "\n\n".join(parts)


def objective_text(ask: Ask) -> str:
    """List the metrics and their directions, and the run's results so far."""
    history, metrics = ask.history, ask.history.counting_metrics(ask.run)
    lines = [*_metric_lines(metrics[:_MAX_METRICS])]
    if len(metrics) > _MAX_METRICS:
        lines.append(f"- and {len(metrics) - _MAX_METRICS} more metrics, in the order of the benchmark's report")
    lines.append(f"The baseline, {_node_result(history, ask.root)}.")
    if ask.best.id != ask.root.id:
        lines.append(f"The best so far, {_node_result(history, ask.best)}.")
    return "\n".join(lines)


def _metric_lines(metrics: tuple[Metric, ...]) -> Iterator[str]:
    if not metrics:
        yield "The benchmark reports what counts; more is better unless it says otherwise."
    elif len(metrics) == 1:
        yield f"Make {_metric_goal(metrics[0])}{_tolerance_note(metrics[0])}."
    elif all(metric.weight is not None for metric in metrics):
        yield "The weighted sum of these metrics decides:"
        for metric in metrics:
            yield f"- {_metric_goal(metric)}, weight {metric.weight:g}"
    else:
        yield "These metrics decide, the most important first; the next counts where those before it are equal:"
        for metric in metrics:
            yield f"- {_metric_goal(metric)}{_tolerance_note(metric)}"


def _metric_goal(metric: Metric) -> str:
    size = "large" if metric.direction is Direction.MAX else "small"
    return f"`{one_line(metric.name, _LONGEST)}` as {size} as possible"


def _tolerance_note(metric: Metric) -> str:
    return f" (differences up to {metric.tolerance:g} count as equal)" if metric.tolerance else ""


def _node_result(history: History, node: Node) -> str:
    return f"node {node.name}: {result_words(history, node, _MAX_METRICS)}"


# Every proposal needs one, so it must not read every node each time: it reads the nodes that are new or were
# undecided, and builds itself from the history when a process starts. Its content depends on the history alone:
# verdicts in the order in which they were recorded, and scores of nodes that will not be measured again.


_MAX_PER_LIST = 40


class ExperimentDigest:
    """The judged nodes of one pool of one run under one fingerprint."""

    def __init__(self, run: int, pool: Pool, node_lines: NodeLines) -> None:
        self._run = run
        self._pool = pool
        self._node_lines = node_lines
        self._nodes_seen = 0
        """How many nodes of the pool it has read."""
        self._undecided: list[NodeId] = []
        self._kept: deque[NodeId] = deque(maxlen=_MAX_PER_LIST)
        self._failed: deque[NodeId] = deque(maxlen=_MAX_PER_LIST)
        self._newest_not_kept: deque[NodeId] = deque(maxlen=_MAX_PER_LIST)
        self._best_not_kept: list[tuple[float, int, NodeId]] = []
        """The best nodes that were not kept, as worth, event of the verdict, node; the best last."""
        self._verdicts: Counter[str] = Counter()

    def update(self, history: History) -> None:
        """Read the verdicts since the last update."""
        ids = history.nodes_of_pool(self._run, self._pool)
        nodes = [history[node] for node in (*self._undecided, *ids[self._nodes_seen :]) if node.parent]
        self._nodes_seen = len(ids)
        self._undecided = [node.id for node in nodes if node.verdict is None]
        for node in sorted((node for node in nodes if node.verdict), key=lambda node: node.judged):
            self._take_verdict(history, node)

    def lines(self, history: History, limit_tokens: int, known: Collection[NodeId] = ()) -> list[str]:
        """Return the digest within a token budget: the best nodes, the failures and why, the newest others.

        Nodes that the prompt shows elsewhere are `known`, and left out.
        """
        if not self._verdicts:
            return []
        total = sum(self._verdicts.values())
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self._verdicts.items()))
        lines = lines_within([f"{total} experiments were decided: {counts}."], limit_tokens)
        shown = set(known)
        best_not_kept = (node for _, _, node in reversed(self._best_not_kept))
        parts = (
            ("Kept, the newest and best first:", reversed(self._kept), 3),
            ("Failed or rejected, the newest first:", reversed(self._failed), 3),
            ("Not kept, the best first:", best_not_kept, 2),
            ("Not kept, the newest first:", reversed(self._newest_not_kept), 1),
        )
        for heading, nodes, share in parts:
            remaining = limit_tokens - sum(map(line_tokens, lines))
            lines += self._list_lines(history, heading, nodes, shown, remaining // share)
        return lines if len(lines) > 1 else []

    def _list_lines(
        self, history: History, heading: str, nodes: Iterator[NodeId], shown: set[NodeId], limit_tokens: int
    ) -> list[str]:
        """List a heading and nodes not shown yet, within the budget; nothing when no node fits."""
        new = [node for node in nodes if node not in shown]
        node_lines = (self._node_lines.with_change(history, history[node], with_reason=False) for node in new)
        lines = lines_within(itertools.chain([heading], node_lines), limit_tokens)
        shown.update(new[: len(lines) - 1])
        return lines if len(lines) > 1 else []

    def _take_verdict(self, history: History, node: Node) -> None:
        assert node.verdict is not None
        unfinished = node.outcome is None or not node.outcome.is_finished
        failed = unfinished or node.verdict in (Verdict.REJECTED, Verdict.QUARANTINED)
        self._verdicts["failed or rejected" if failed else node.verdict.value] += 1
        if failed:
            self._failed.append(node.id)
        elif node.verdict is Verdict.KEPT:
            self._kept.append(node.id)
        else:
            self._newest_not_kept.append(node.id)
            self._rank(history, node)

    def _rank(self, history: History, node: Node) -> None:
        assert node.outcome is not None
        worth = _worth(node.outcome.metrics, history.metrics(node))
        if worth is not None and node.outcome.fingerprint == Cohorts.of(history.runs[self._run]).fingerprint:
            bisect.insort(self._best_not_kept, (worth, node.judged, node.id))
            del self._best_not_kept[:-_MAX_PER_LIST]


def _worth(reported: Metrics, metrics: tuple[Metric, ...]) -> float | None:
    """Return a number that grows with the result: the weighted sum or the first metric; None if one is missing."""
    weighted = all(metric.weight is not None for metric in metrics)
    counting = metrics if weighted else metrics[:1]
    if not counting or any(metric.name not in reported for metric in counting):
        return None
    return sum((metric.weight or 1.0) * metric.direction.sign * reported[metric.name] for metric in counting)
