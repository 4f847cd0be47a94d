"""The results, traces and logs of the node to change, and the changes of the nodes that inspire it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loopty.domain.leftovers import Leftovers
from loopty.kit.fence import one_line
from loopty.kit.token_budget import fence_to_budget
from loopty.proposers.context.node_line import NodeLines
from loopty.proposers.params_text import params_line
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_METRICS = 40
_NAME = 120


def results_text(node: Node) -> str:
    """The node's parameters, the ending of its trial and all its metrics, a line each."""
    lines = [f"parameters: {one_line(params_line(node.params), 2000)}"] if node.params else []
    if outcome := node.outcome:
        reason = f": {one_line(outcome.reason, 500)}" if outcome.reason else ""
        lines.append(f"trial: {outcome.ending} after {outcome.seconds:.3g} s{reason}")
        shown = list(outcome.metrics.items())[:_MAX_METRICS]
        lines += [f"{one_line(name, _NAME)}: {value:.6g}" for name, value in shown]
        if len(outcome.metrics) > len(shown):
            lines.append(f"… {len(outcome.metrics) - len(shown)} more metrics")
    return "\n".join(lines)


def leftover_texts(node: Node, leftovers: Leftovers, limit_tokens: int) -> Iterator[str]:
    """The evaluator's artifacts, the traces and the ends of the logs, each in half of the remaining budget."""
    artifacts = "\n".join(f"{one_line(name, _NAME)}: {text}" for name, text in leftovers.artifacts.items())
    traces = "\n\n".join(f"task {one_line(task, _NAME)}\n{text}" for task, text in leftovers.traces.items())
    parts = (
        ("what the benchmark says", artifacts),
        ("traces of tasks, failed ones first", traces),
        ("the end of stderr", leftovers.stderr),
        ("the end of stdout", leftovers.stdout),
    )
    for label, text in parts:
        if fenced := fence_to_budget(f"{label}, node {node.id.name}", text, limit_tokens // 2):
            limit_tokens = limit_tokens // 2
            yield fenced


def inspiration_texts(
    history: History,
    nodes: Sequence[Node],
    read_leftovers: Callable[[Node], Leftovers],
    limit_tokens: int,
    node_lines: NodeLines,
) -> Iterator[str]:
    """The line of each node with its change below, in an equal share of the budget each."""
    for node in nodes:
        change = read_leftovers(node).diff or params_line(node.params)
        line = node_lines.of(history, node)
        text = f"{line}\n\n{change}" if change else line
        if fenced := fence_to_budget(f"node {node.id.name} and its change", text, limit_tokens // len(nodes)):
            yield fenced
