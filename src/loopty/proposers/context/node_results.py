"""The results, traces and logs of the node to change."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loopty.domain.leftovers import Leftovers
from loopty.kit.fence import one_line
from loopty.kit.token_budget import fence_to_budget
from loopty.proposers.params_text import params_line
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_METRICS = 40
_NAME = 120


def results_text(history: History, node: Node) -> str:
    """The node's parameters, how long its trial took, and the metrics that do not count, a line each."""
    lines = [f"parameters: {one_line(params_line(node.params), 2000)}"] if node.params else []
    if outcome := node.outcome:
        reason = f": {one_line(outcome.reason or node.reason, 500)}" if not outcome.is_finished else ""
        lines.append(f"trial: {outcome.ending} after {outcome.seconds:.3g} s{reason}")
        counting = {metric.name for metric in history.metrics(node)} if outcome.is_finished else set()
        others = [(name, value) for name, value in outcome.metrics.items() if name not in counting]
        lines += [f"{one_line(name, _NAME)}: {value:.6g}" for name, value in others[:_MAX_METRICS]]
        if len(others) > _MAX_METRICS:
            lines.append(f"... {len(others) - _MAX_METRICS} more metrics")
    return "\n".join(lines)


def leftover_texts(node: Node, leftovers: Leftovers, limit_tokens: int) -> Iterator[str]:
    """The evaluator's artifacts, the traces and the ends of the logs, each in half of the remaining budget."""
    artifacts = "\n".join(f"{one_line(name, _NAME)}: {text}" for name, text in leftovers.artifacts.items())
    traces = "\n\n".join(f"task {one_line(task, _NAME)}\n{text}" for task, text in leftovers.traces.items())
    parts = (
        ("what the benchmark says", artifacts),
        ("traces of tasks, failed ones first", traces),
        ("the end of stderr", leftovers.stderr),
        ("the end of stdout", "" if _is_result_alone(leftovers.stdout) else leftovers.stdout),
    )
    for label, text in parts:
        if fenced := fence_to_budget(f"{label}, node {node.name}", text, limit_tokens // 2):
            limit_tokens = limit_tokens // 2
            yield fenced


def _is_result_alone(output: str) -> bool:
    """Whether the output is one JSON object, as where a benchmark prints its result: the metrics say it all."""
    text = output.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
