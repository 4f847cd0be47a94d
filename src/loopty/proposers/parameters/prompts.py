"""The prompts to a model that chooses parameters: the schema of its reply, and the best and the newest of what was
tried.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator, Sequence
from typing import Any

from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Speaker
from loopty.domain.objective import Metric, Metrics
from loopty.domain.space import Parameter, ParameterKind, Space, Value
from loopty.domain.trial import Ending, Pool, Verdict
from loopty.engine.protocols import Ask
from loopty.kit.foreign_text import FENCED_IS_DATA, fence_text, one_line
from loopty.kit.model_text import lines_within, schema
from loopty.proposers.context.nodes import result_words
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.node_table import is_about

_SYSTEM = (
    "You choose the parameters of a program so that its benchmark gives better results. You see what was tried "
    "and what it gave; you propose what to try next, and the benchmark decides. " + FENCED_IS_DATA
)
_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def configurations_prompt(context: str, space: Space, tried: str, batch: int) -> Prompt:
    """Make the prompt that asks for `batch` configurations."""
    wanted = "the configuration that is" if batch == 1 else f"the {batch} configurations that are"
    names = ", ".join(f"`{name}`" for name in space.parameters)
    sections = (
        context,
        f"# Parameters\n\n{space_text(space)}",
        f"# Configurations that were tried\n\n{tried}",
        f"# What to do\n\nPropose {wanted} most worth trying next. Each must differ from all that were tried, and "
        "from each other. Weigh what the results suggest against regions where little is known. Change only "
        "parameters, no files. Reply with JSON alone: an object with a list `proposals`. Each proposal has first "
        "`reason`, a sentence that says what the results so far suggest and why this one is next, and then "
        f"`parameters`, an object with a value for each of {names} that exists under the others' values.",
    )
    return Prompt(_SYSTEM, (Message(Speaker.ASKER, "\n\n".join(sections)),), reply_schema(space))


def retry_text(faults: Sequence[str]) -> str:
    """Return the message that asks again after a reply without a usable point."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    return f"None of this can be tried:\n{lines}\n\nReply again, with the JSON alone, as it was described."


def space_text(space: Space) -> str:
    """List the parameters of the space, a line each."""
    return "\n".join(f"- `{name}`: {'; '.join(_facts(parameter))}" for name, parameter in space.parameters.items())


def reply_schema(space: Space) -> dict[str, Any]:
    """Return the JSON schema of `{"proposals": [{"reason": "…", "parameters": {…}}]}`."""
    parameters = schema({name: _property_schema(parameter) for name, parameter in space.parameters.items()})
    # The reason comes first: a value that is already written cannot follow from it.
    proposal = schema({"reason": {"type": "string"}, "parameters": parameters})
    return schema({"proposals": {"type": "array", "items": proposal}})


def value_text(value: Value) -> str:
    """Return the value as JSON, with at most six significant digits."""
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _facts(parameter: Parameter) -> Iterator[str]:
    if parameter.type is ParameterKind.CATEGORICAL:
        yield f"one of {', '.join(map(value_text, parameter.choices))}"
    else:
        assert parameter.low is not None
        assert parameter.high is not None
        low, high = _number_text(parameter.low), _number_text(parameter.high)
        yield f"{parameter.type} from {low} to {high}, both included"
        if parameter.step:
            yield f"in steps of {_number_text(parameter.step)}"
        if parameter.log:
            yield "on a logarithmic scale"
    yield f"{value_text(parameter.baseline)} in the baseline"
    if parameter.when:
        conditions = " and ".join(f"`{other}` is {value_text(value)}" for other, value in parameter.when.items())
        yield f"exists only while {conditions}"


def _number_text(number: float) -> str:
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def _property_schema(parameter: Parameter) -> dict[str, Any]:
    # Strict servers want every key in each reply: a parameter that does not exist is null.
    optional = bool(parameter.when)
    if parameter.type is ParameterKind.CATEGORICAL:
        kinds = sorted({_TYPES[type(choice)] for choice in parameter.choices})
        choices = [*parameter.choices, *([None] if optional else [])]
        return {"type": _json_type(kinds, optional), "enum": choices}
    kind = "integer" if parameter.type is ParameterKind.INT else "number"
    return {"type": _json_type([kind], optional), "minimum": parameter.low, "maximum": parameter.high}


def _json_type(kinds: list[str], optional: bool) -> str | list[str]:
    kinds = [*kinds, "null"] if optional else kinds
    return kinds[0] if len(kinds) == 1 else kinds


_LIMIT_TOKENS = 4_000
_LONGEST_REASON = 160


class TriedPoints:
    """Lists at most `limit` configurations, and the first one of the parent's code."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ranking: tuple[tuple[int, Pool, str, tuple[Metric, ...]], Ranking] | None = None
        """The ranking for the code of the last question."""

    def text(self, ask: Ask, parent: Node) -> str:
        """List the first configuration, then the best, then the newest, each with its result."""
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
    """Return `1.3 | score 2.41 | {"x": 1.5}`, followed by the reason of a failure or a rejection."""
    params = ", ".join(f'"{name}": {value_text(value)}' for name, value in node.params.items())
    parts = [node.name, result_words(ask.history, node), f"{{{params}}}"]
    if node.outcome and not node.outcome.is_finished:
        parts.append(one_line(node.outcome.reason, _LONGEST_REASON))
    elif node.verdict is Verdict.REJECTED:
        parts.append(f"rejected: {one_line(node.reason, _LONGEST_REASON)}")
    return " | ".join(part for part in parts if part)


# A question must not sort every node: an update reads only nodes that are new, undecided or kept, because no other
# node can change any more. A new process builds the ranking from the history, and it depends on the history alone.


_MANY_NODES = 500
"""With more of them to read at once, the facts say which."""
Worth = tuple[float, ...]
"""Smaller is better."""


class Ranking:
    """Ranks the nodes of one pool of one run that have the same files, without the baseline."""

    def __init__(self, run: int, pool: Pool, tree: str, metrics: tuple[Metric, ...], limit: int) -> None:
        self._run = run
        self._pool = pool
        self._tree = tree
        self._metrics = metrics
        self._limit = limit
        self._nodes_seen = 0
        """How many nodes of the pool it has read."""
        self._open: list[NodeId] = []
        """Nodes without a verdict, with any files: the files of a draft may change."""
        self._kept: list[NodeId] = []
        """Kept nodes: they are measured again when others are compared with them."""
        self._best_not_kept: list[tuple[Worth, int, NodeId]] = []
        """The best judged nodes that were not kept, the best first; of equal nodes the oldest first."""
        self._newest: list[tuple[int, NodeId]] = []
        """The newest judged nodes, the newest last."""

    def update(self, history: History) -> None:
        """Read the nodes and verdicts since the last update."""
        ids = history.nodes_of_pool(self._run, self._pool)
        is_long = len(ids) - self._nodes_seen > _MANY_NODES and self._nodes_seen == 0
        nodes = self._candidates(history) if is_long else None
        if nodes is None:
            nodes = [history[node] for node in (*self._open, *ids[self._nodes_seen :]) if node.parent]
        self._nodes_seen = len(ids)
        self._open = [node.id for node in nodes if node.verdict is None]
        for node in nodes:
            if node.verdict and node.tree == self._tree:
                self._take_verdict(node)

    def _candidates(self, history: History) -> list[Node] | None:
        """List the nodes that can be ranked, by the facts about all; None if the facts do not tell.

        Files are no fact, so that nodes are read from the best and from the newest on, until enough have these.
        """
        metric = self._metrics[0] if len(self._metrics) == 1 else None
        if metric is None or metric.tolerance or (metric.weight is not None and metric.weight <= 0):
            return None
        wanted, scored, judged = set[int](), list[tuple[float, int, int]](), list[tuple[int, int]]()
        for facts in history.facts(self._run, self._pool):
            is_finished, handle = facts.ending == Ending.FINISHED, facts.handle
            if is_finished and not is_about(facts.basis, metric.name):
                return None
            if facts.verdict is None or facts.verdict == Verdict.KEPT:
                wanted.add(handle)
            elif is_finished and facts.verdict != Verdict.REJECTED and facts.score is not None:
                scored.append((-metric.direction.sign * facts.score, facts.place_in_run, handle))
            if facts.verdict is not None:
                judged.append((-facts.place_in_run, handle))
        for handles in ([row[-1] for row in sorted(scored)], [row[-1] for row in sorted(judged)]):
            wanted.update(self._first_with_these_files(history, handles))
        found = history.nodes_of_handles(sorted(wanted))
        return [history[found[handle]] for handle in sorted(wanted) if found[handle].parent]

    def _first_with_these_files(self, history: History, handles: Sequence[int]) -> Iterator[int]:
        """Yield as many handles as are listed at most, of nodes with these files; the baseline does not count."""
        count = 0
        for start in range(0, len(handles), _MANY_NODES):
            part = handles[start : start + _MANY_NODES]
            found = history.nodes_of_handles(part)
            for handle in part:
                if count == self._limit:
                    return
                node = history[found[handle]]
                if node.tree == self._tree and node.id.parent:
                    count += 1
                    yield handle

    def best(self, history: History, start: Node, limit: int) -> list[Node]:
        """List the best nodes, `start` among them; of equal nodes `start` comes first, then the oldest."""
        unsettled = (*map(history.__getitem__, self._kept), *self._open_nodes(history))
        ranked = [entry for node in unsettled if (entry := self._entry(node))]
        ranked = sorted(entry for entry in (*ranked, *self._best_not_kept) if entry[2] != start.id)
        if entry := self._entry(start):
            bisect.insort_left(ranked, entry, key=lambda other: other[0])
        return [history[node] for _, _, node in ranked[:limit]]

    def newest(self, history: History) -> list[Node]:
        """List the newest nodes, the newest first."""
        undecided = ((node.order, node.id) for node in self._open_nodes(history))
        return [history[node] for _, node in sorted((*self._newest, *undecided), reverse=True)[: self._limit]]

    def _open_nodes(self, history: History) -> Iterator[Node]:
        return (node for node in map(history.__getitem__, self._open) if node.tree == self._tree)

    def _take_verdict(self, node: Node) -> None:
        bisect.insort(self._newest, (node.order, node.id))
        del self._newest[: -self._limit]
        if node.verdict is Verdict.KEPT:
            self._kept.append(node.id)
        elif entry := self._entry(node):
            bisect.insort(self._best_not_kept, entry)
            del self._best_not_kept[self._limit :]

    def _entry(self, node: Node) -> tuple[Worth, int, NodeId] | None:
        """Return the node's sort key and id; None when it cannot be compared."""
        outcome, metrics = node.outcome, self._metrics
        if not metrics or outcome is None or not outcome.is_finished or node.verdict is Verdict.REJECTED:
            return None
        if any(metric.name not in outcome.metrics for metric in metrics):
            return None
        return _worth(outcome.metrics, metrics), node.order, node.id


def _worth(reported: Metrics, metrics: tuple[Metric, ...]) -> Worth:
    """Return the weighted sum; without weights metric by metric, equal within a tolerance step.

    Steps, not differences: of three results the neighbours may be within a tolerance of each other while the outer
    two are not, and such a relation cannot sort anything.
    """
    values = [-metric.direction.sign * reported[metric.name] for metric in metrics]
    if all(metric.weight is not None for metric in metrics):
        return (sum((metric.weight or 0.0) * value for metric, value in zip(metrics, values, strict=True)),)
    steps = (
        value // metric.tolerance if metric.tolerance else value
        for metric, value in zip(metrics, values, strict=True)
    )
    return (*steps, *values)
