"""What somebody who joins the search has to know. O(the bounds below), however long the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.domain.round_size import AttemptFigures, RoundDepth
from loopty.domain.task import Task
from loopty.kit.records import Record, replace
from loopty.record.claims import Claim, Claims
from loopty.record.directives import Directive
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.notes import Note, Notes
from loopty.record.run_record import Run
from loopty.record.search_summary import SearchSummary, SurfaceCount
from loopty.record.tickets import Tickets
from loopty.record.trials import TrialCounts
from loopty.views.over_parent import OverParent, over_parent
from loopty.views.run_status import RunStatus, status

_MOST_ON_PATH = 8
_MOST_SIDE_NODES = 5
_MOST_FAILED = 10
_MOST_SURFACES = 12
_MOST_CLAIMS = 8
_MOST_TASKS = 5
_MOST_NOTES = 6
_MOST_CHILDREN = 5
_TASK = "tasks."
_SEEN_SIGMAS = 1.5
"""The judge is tuned to find gains of this many times the noise; smaller ones need more pairs than most have."""
_LONG_WITHOUT_GAIN = 12
_MISSES_TO_LEAVE = 3


class NodeChange(Record):
    """A node, and how much better than its parent it is."""

    node: Node
    over_parent: OverParent | None


class AttemptCost(Record):
    """What an attempt takes; None where nothing was measured yet."""

    seconds: float | None
    """Of one measurement."""
    pairs: float | None
    """Repeat measurements per attempt, in pairs."""
    smallest_gain: float | None
    """The smallest gain that can be told from noise, in the metric's unit; 0 where results do not vary."""
    depth: RoundDepth | None = None
    """How many submissions one agent should make in a round; None where the task cannot be read."""


class FocusNode(Record):
    """The node that was asked about."""

    change: NodeChange
    path: tuple[Node, ...]
    children: tuple[NodeChange, ...]
    """The newest changes to it."""


class SearchContext(Record):
    """Everything that `loopty context` says, in its order."""

    task: Task | None
    status: RunStatus
    cost: AttemptCost
    best_path: tuple[NodeChange, ...]
    """From the baseline to the best, the last ones."""
    hidden_on_path: int
    focus: FocusNode | None
    side_nodes: tuple[NodeChange, ...]
    """Better than their parents, or undecided, and no part of the best."""
    failed: tuple[Node, ...]
    """Newest first."""
    surfaces: Mapping[str, SurfaceCount]
    claims: Mapping[NodeId, Claim]
    open_tickets: int
    now: float
    tasks: tuple[tuple[str, float], ...]
    """The tasks of the benchmark on which the best scores worst."""
    notes: tuple[Note, ...]
    """Newest first."""
    directive: str
    advice: tuple[str, ...]
    names: Mapping[NodeId, str]
    """Of the nodes that notes, claims and merges mention."""


def search_context(
    history: History,
    run: Run,
    task: Task | None,
    now: float,
    is_alive: Callable[[str], bool],
    focus: NodeId | None = None,
) -> SearchContext:
    """The context of a run; with `focus`, also that of one node."""
    where = _status(history, run, task, now, is_alive)
    best = history[where.best.node] if where.best else None
    path = best.id.lineage if best else []
    shown = [*path[:1], *path[1:][-(_MOST_ON_PATH - 1) :]]
    summary, claims = SearchSummary.of(run), Claims.of(run).by_node
    fresh = {NodeId(node): claim for node, claim in claims.items() if claim.is_fresh(now)}
    cost = _with_depth(_cost(run, where), where, task)
    focused = _focus(history, focus) if focus else None
    path_shown, side_nodes = tuple(_changes(history, shown)), _side_nodes(history, summary.side_nodes, best)
    failed = tuple(history[node] for node in reversed(summary.failed))[:_MOST_FAILED]
    notes = tuple(reversed(Notes.of(run).newest))[:_MOST_NOTES]
    shown_claims = dict(list(reversed(fresh.items()))[:_MOST_CLAIMS])
    changes = (*path_shown, *side_nodes, *((focused.change, *focused.children) if focused else ()))
    merged = [other for node in (*(change.node for change in changes), *failed) for other in node.merged]
    mentioned = {*merged, *shown_claims, *(note.node for note in notes if note.node)}
    return SearchContext(
        task,
        where,
        cost,
        path_shown,
        len(path) - len(shown),
        focused,
        side_nodes,
        failed,
        dict(list(reversed(list(summary.surfaces.items())))[:_MOST_SURFACES]),
        shown_claims,
        len(Tickets.of(run).open),
        now,
        _weak_tasks(best, where),
        notes,
        Directive.of(run).words(history.name),
        tuple(_advice(where, summary, cost)),
        {node: history.name(node) for node in mentioned},
    )


def _status(
    history: History, run: Run, task: Task | None, now: float, is_alive: Callable[[str], bool]
) -> RunStatus:
    if task is None:
        return status(history, run, now, is_alive)
    return status(history, run, now, is_alive, task.pools, task.width, task.noise, task.stated_width)


def _changes(history: History, nodes: Sequence[NodeId]) -> Iterator[NodeChange]:
    return (NodeChange(history[node], over_parent(history, history[node])) for node in nodes)


def _cost(run: Run, where: RunStatus) -> AttemptCost:
    counts, repeats = TrialCounts.of(run, Pool.ATTEMPT), TrialCounts.of(run, Pool.REPEAT)
    ended, repeated = sum(counts.endings.values()), sum(repeats.endings.values())
    seconds = counts.busy_seconds / ended if ended else None
    attempts = max(ended - 1, 0)  # without the baseline, whose own repeats do not count either
    repeated -= where.noise.measurements - 1 if where.noise else 0
    noise = where.noise
    smallest = noise.sigma * _SEEN_SIGMAS if noise else (0.0 if where.baseline else None)
    return AttemptCost(seconds, max(repeated, 0) / 2 / attempts if attempts else None, smallest)


def _with_depth(cost: AttemptCost, where: RunStatus, task: Task | None) -> AttemptCost:
    if task is None:
        return cost
    seconds = (cost.seconds or task.profile.seconds) * (1 + 2 * (cost.pairs or 0.0))
    percent = where.noise.percent if where.noise else None
    left = where.left.attempts if where.left else None
    return replace(cost, depth=task.round_depth(AttemptFigures(seconds, percent or 0.0), left))


def _focus(history: History, node: NodeId) -> FocusNode:
    found = history[node]
    numbers = range(found.children, max(found.children - _MOST_CHILDREN, 0), -1)
    children = [found.id.child(number) for number in numbers]
    above = [history[other] for other in found.id.lineage[:-1][-_MOST_ON_PATH:]]
    return FocusNode(next(_changes(history, [node])), tuple(above), tuple(_changes(history, children)))


def _side_nodes(history: History, nodes: Sequence[NodeId], best: Node | None) -> tuple[NodeChange, ...]:
    """The side nodes that still count, undecided ones first, then by their gain over the parent."""
    merged = {node for above in (best.id.lineage if best else ()) for node in history[above].merged}
    changes = [
        change
        for change in _changes(history, nodes)
        if not (change.node.withdrawn or change.node.files_removed or change.node.id in merged)
        and not (best and best.id.is_within(change.node.id))
    ]

    def rank(change: NodeChange) -> tuple[bool, float]:
        gain = change.over_parent.change.percent if change.over_parent else None
        return change.node.verdict not in (Verdict.INCONCLUSIVE, Verdict.HELD), -(gain or 0.0)

    return tuple(sorted(changes, key=rank)[:_MOST_SIDE_NODES])


def _weak_tasks(best: Node | None, where: RunStatus) -> tuple[tuple[str, float], ...]:
    if best is None or best.outcome is None:
        return ()
    scores = [(name, value) for name, value in best.outcome.metrics.items() if name.startswith(_TASK)]
    scores.sort(key=lambda item: where.direction.sign * item[1])
    return tuple((name.removeprefix(_TASK), value) for name, value in scores[:_MOST_TASKS])


def _advice(where: RunStatus, summary: SearchSummary, cost: AttemptCost) -> Iterator[str]:
    """What follows from the record by rule."""
    if where.without_baseline:
        yield f"the baseline gave no result: {where.without_baseline}; `loopty status` says cause and remedy"
    elif where.baseline is None:
        yield "the baseline has no result yet: it is measured with the first attempt"
    if where.since_best >= _LONG_WITHOUT_GAIN:
        yield f"no progress for {where.since_best} attempts: change the level (data structure, algorithm, build)"
    if summary.gains and cost.smallest_gain and max(summary.gains) < cost.smallest_gain:
        yield "noise above the last gains: lengthen the benchmark, or look for larger changes"
    for surface, count in reversed(list(summary.surfaces.items())):
        if count.misses_in_row >= _MISSES_TO_LEAVE:
            yield f"{count.misses_in_row} misses in a row on {surface}: leave it"
            break
    if where.left and where.left.attempts == 0:
        yield "no attempt is left: raise attempts under [pools] in loopty.toml"
