"""The goal in words: the statement, the metrics, the results so far."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.objective import Direction, Metric
from loopty.engine.protocols import Ask
from loopty.kit.fence import one_line
from loopty.kit.token_budget import cut_to
from loopty.proposers.context.node_line import result_words
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_METRICS = 12
_LONGEST = 120


def goal_text(ask: Ask, statement: str, directive: str, limit_tokens: int) -> str:
    """What is wanted, by which metrics, what the user said last, and the results so far.

    The statement and the directive are cut where they are too long, and nothing else.
    """
    words = cut_to(statement.strip(), limit_tokens * 2 // 3) or "Improve the program."
    parts = [words, objective_text(ask)]
    if directive:
        parts.append(f"What the user wants now: {cut_to(directive, limit_tokens // 3)}")
    return "# Goal\n\n" + "\n\n".join(parts)


def objective_text(ask: Ask) -> str:
    """The metrics and their directions, and the run's results so far."""
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
