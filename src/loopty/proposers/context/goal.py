"""The objective and the access rules, in words."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.access import Access
from loopty.domain.objective import Direction, Metric
from loopty.engine.protocols import Ask
from loopty.kit.fence import one_line
from loopty.proposers.context.node_line import result_words
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_METRICS = 12
_MAX_RULES = 40
_LONGEST = 120


def objective_text(ask: Ask) -> str:
    """The metrics and their directions, and the run's results so far."""
    history, metrics = ask.history, ask.history.counting_metrics(ask.run)
    lines = ["# Objective", "", *_metric_lines(metrics[:_MAX_METRICS])]
    if len(metrics) > _MAX_METRICS:
        lines.append(f"- and {len(metrics) - _MAX_METRICS} more metrics, in the order of the benchmark's report")
    lines += ["", f"The baseline, {_node_result(history, ask.root)}."]
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
    return f"node {node.id.name}: {result_words(history, node, _MAX_METRICS)}"


def rules_text(access: Access) -> str:
    """Which files may be changed and which may be read. Hidden files are not even named."""
    readable = "every other file" if access.read == ("**",) else _pattern_list(access.read)
    return "\n".join(
        (
            "# Rules",
            "",
            f"- May be changed, added or deleted: {_pattern_list(access.write)}",
            f"- May be read: {readable}",
            "- Any other change is refused without a trial, above all to the benchmark and its data.",
            "- Where a file has EVOLVE-BLOCK-START and EVOLVE-BLOCK-END markers, only what lies between them.",
            "- Trials run in a sandbox, and what looks better is measured again. A change that games the "
            "benchmark, removes checks or fakes results is rejected, whatever its score.",
        )
    )


def _pattern_list(patterns: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{one_line(pattern, _LONGEST)}`" for pattern in patterns[:_MAX_RULES])
    more = f" and {len(patterns) - _MAX_RULES} more" if len(patterns) > _MAX_RULES else ""
    return f"{shown}{more}" if shown else "nothing"
