"""Nodes in a prompt: one in a few lines, the path to it, and its results, traces and logs."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.trial import Leftovers
from loopty.engine.protocols import Ask
from loopty.kit.foreign_text import one_line
from loopty.kit.model_text import fence_to_budget
from loopty.proposers.shared_pool import params_line
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_METRICS = 4
_CASE = "tasks."
"""Begins the name of the score of one case."""
_SUMMARY, _REASON, _NAME = 480, 240, 80
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
        """Return `1.3 | diff | unroll the loop | score 2.41 | kept: better than 1 by 0.21 in score (…)`.

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
        """Say what the node is and what it changed, for a node whose failure is shown elsewhere."""
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
        _components(history, node),
        _verdict_text(node, with_reason or bool(failed)),
    ]
    return " | ".join(part for part in parts if part)


def result_words(history: History, node: Node, limit: int = _MAX_METRICS) -> str:
    """Return the counting metrics, or how the trial ended if it reported none."""
    outcome = node.outcome
    if outcome is None:
        return "being tried" if node.verdict is None else ""
    known = [metric.name for metric in history.metrics(node) if metric.name in outcome.metrics]
    if not outcome.is_finished or not known:
        return str(outcome.ending)
    figures = (f"{_short_line(name, _NAME)} {outcome.metrics[name]:.6g}" for name in known[:limit])
    return ", ".join(figures)


def _components(history: History, node: Node) -> str:
    """Return the metrics beside those that count, and how long the trial took."""
    if (outcome := node.outcome) is None or not outcome.is_finished:
        return ""
    counting = {metric.name for metric in history.metrics(node)}
    names = [name for name in outcome.metrics if name not in counting and not name.startswith(_CASE)]
    figures = [f"{_short_line(name, _NAME)} {outcome.metrics[name]:.4g}" for name in names[:_MAX_METRICS]]
    return ", ".join([*figures, f"{outcome.seconds:.2g} s"])


def _verdict_text(node: Node, with_reason: bool) -> str:
    if node.verdict is None:
        return ""
    return (
        f"{node.verdict}: {_short_line(node.reason, _REASON)}"
        if with_reason and node.reason
        else str(node.verdict)
    )


_MAX_LINES = 6
_LONGEST = 120


def changed_lines(diff: str) -> list[str]:
    """List at most six changed lines, removed and added ones alike, and how many more there are."""
    changed = list(_changed(diff))
    removed = [line for line in changed if line[0] == "-"]
    added = [line for line in changed if line[0] == "+"]
    # What is new says more than what is gone.
    old = removed[: max(_MAX_LINES // 2, _MAX_LINES - len(added))]
    new = added[: _MAX_LINES - len(old)]
    more = len(changed) - len(old) - len(new)
    return [*old, *new, *([f"... {more} more changed lines"] if more else [])]


def _changed(diff: str) -> Iterator[str]:
    """Yield the changed lines that are not empty, each with its sign."""
    in_hunk = False
    for line in diff.split("\n"):
        if line.startswith("@@"):
            in_hunk = True
        elif line.startswith("diff "):
            in_hunk = False
        elif in_hunk and line[:1] in ("+", "-") and line[1:].strip():
            indent = len(line[1:]) - len(line[1:].lstrip())
            yield f"{line[0]}{' ' * indent}{one_line(line[1:], _LONGEST)}"


_MAX_CHILDREN = 8
_MAX_CHILDREN_READ = 32
"""More than are shown, because some belong to the other pool."""


def path_nodes(node: Node, limit: int) -> list[NodeId]:
    """List the changes from the baseline to this node; of a long path the last ones."""
    path = [] if node.id.parent is None else [node.id]
    while path and len(path) < limit and (parent := path[0].parent) and parent.parent:
        path.insert(0, parent)
    return path


def path_lines(history: History, path: Sequence[NodeId], node_lines: NodeLines) -> list[str]:
    """List the nodes of a path, with their changes, and how many came before them."""
    earlier = path[0].depth - 1 if path else 0
    gap = [f"... {earlier} earlier changes ..."] if earlier else []
    return [*gap, *(_path_line(history, history[node], node_lines, node == path[-1]) for node in path)]


def _path_line(history: History, node: Node, node_lines: NodeLines, is_last: bool) -> str:
    failed = node.outcome is not None and not node.outcome.is_finished
    return node_lines.without_result(node) if is_last and failed else node_lines.with_change(history, node)


def tried_children(ask: Ask, parent: Node) -> Iterator[Node]:
    """Yield the newest changes to this node, running trials included."""
    count = 0
    oldest = max(parent.children - _MAX_CHILDREN_READ, 0)
    for number in range(parent.children, oldest, -1):
        child = ask.history[parent.id.child(number)]
        if child.pool is ask.pool and not child.dropped:
            count += 1
            yield child
        if count == _MAX_CHILDREN:
            return


_MAX_RESULT_METRICS = 40
_FEW = 3
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?", re.IGNORECASE)
_RESULT_NAME = 120


def results_text(history: History, node: Node) -> str:
    """List the node's parameters, how long its trial took, and the metrics that do not count, a line each."""
    lines = [f"parameters: {one_line(params_line(node.params), 2000)}"] if node.params else []
    if outcome := node.outcome:
        reason = f": {one_line(outcome.reason or node.reason, 500)}" if not outcome.is_finished else ""
        lines.append(f"trial: {outcome.ending} after {outcome.seconds:.3g} s{reason}")
        counting = {metric.name for metric in history.metrics(node)} if outcome.is_finished else set()
        others = [(name, value) for name, value in outcome.metrics.items() if name not in counting]
        sign = next((metric.direction.sign for metric in history.metrics(node)), 1)
        # Of many cases, those that have most to gain.
        others.sort(key=lambda item: sign * item[1] if item[0].startswith(_CASE) else float("-inf"))
        lines += [f"{one_line(name, _RESULT_NAME)}: {value:.6g}" for name, value in others[:_MAX_RESULT_METRICS]]
        if len(others) > _MAX_RESULT_METRICS:
            lines.append(f"... {len(others) - _MAX_RESULT_METRICS} more metrics")
    return "\n".join(lines)


def leftover_texts(node: Node, leftovers: Leftovers, limit_tokens: int) -> Iterator[str]:
    """Yield the evaluator's artifacts, the traces and the ends of the logs, each in half of the tokens left."""
    artifacts = "\n".join(f"{one_line(name, _RESULT_NAME)}: {text}" for name, text in leftovers.artifacts.items())
    traces = "\n\n".join(f"task {one_line(task, _RESULT_NAME)}\n{text}" for task, text in leftovers.traces.items())
    parts = (
        ("what the benchmark says", artifacts),
        ("traces of tasks, failed ones first", traces),
        ("the end of stderr", without_repeats(leftovers.stderr)),
        ("the end of stdout", "" if _is_result_alone(leftovers.stdout) else without_repeats(leftovers.stdout)),
    )
    for label, text in parts:
        if fenced := fence_to_budget(f"{label}, node {node.name}", text, limit_tokens // 2):
            limit_tokens = limit_tokens // 2
            yield fenced


def without_repeats(output: str) -> str:
    """Leave out lines that differ from others in their numbers alone, but for the first and the last."""
    lines = output.splitlines()
    kinds = [_NUMBER.sub("0", line).strip() for line in lines]
    first = {kind: at for at, kind in reversed([*enumerate(kinds)])}
    last = {kind: at for at, kind in enumerate(kinds)}
    counts, shown = Counter(kinds), list[str]()
    for at, (line, kind) in enumerate(zip(lines, kinds, strict=True)):
        if counts[kind] <= _FEW or at in (first[kind], last[kind]):
            shown.append(line)
        if counts[kind] > _FEW and at == first[kind]:
            shown.append(f"... {counts[kind] - 2} lines like this ...")
    return "\n".join(shown)


def _is_result_alone(output: str) -> bool:
    """Say whether the output is one JSON object, a benchmark's printed result: the metrics say it all."""
    text = output.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
