"""The rules of a task for verdicts; and tune mode: which point is measured next, and which is promoted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, score_metric
from loopty.domain.proposal import complete_params, identity, join_space
from loopty.domain.space import Params, Space, Value
from loopty.domain.task import Noise, Pools
from loopty.domain.task_tables import Tune
from loopty.domain.trial import Pool
from loopty.kit.records import Record
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.trials import TrialStarted
from loopty.record.tunings import NodeTuned, OpenTuning, TunePoint, TunePointChosen, Tunings, TuningStarted

_LOSSES_UNTIL_END = 5

DrawPoint = Callable[[Space, Sequence[TunePoint], Direction, "random.Random"], dict[str, Value]]
"""Draws the next point from those that were measured. The same points and generator give the same answer."""


class Tuning(Record):
    """How this task tunes its proposals."""

    spec: Tune
    space: Space
    """The task's own parameters; a program may declare further ones."""
    draw: DrawPoint


def tune_step(
    history: History, node: Node, owner: str, tuning: Tuning | None, spent: str | None
) -> Iterator[Event]:
    """Start the node's next tune trial, or promote its parameters; nothing if it is not to be tuned.

    `spent` says why the pool of tunes pays for no more.
    """
    run = history.runs[node.id.run]
    known = Tunings.of(run, node.pool).open.get(node.id)
    if known is None:
        if not _is_tunable(history, node, tuning) or spent:
            return
        assert tuning is not None
        spec = tuning.spec
        known = OpenTuning(spec.slice, spec.sampler, spec.trials)
        yield TuningStarted(node.id, spec.slice, spec.sampler, spec.trials)
    reason = _end_reason(node, known, tuning) or spent
    if reason or tuning is None:
        yield NodeTuned(node.id, _promoted_params(history, node, known), reason or "tune mode was turned off")
        return
    generator = random.Random(f"{run.seed} tune {node.id} {len(known.points)}")
    params = dict(node.params)
    if known.points:
        space = join_space(tuning.space, node.declared)
        params = tuning.draw(space, known.points, _direction(history, node), generator)
    number = node.trials + 1
    yield TrialStarted(node.id, number, Pool.TUNE, owner)
    yield TunePointChosen(node.id, number, params)


def promised_nodes(history: History, run: int, pool: Pool) -> list[Node]:
    """List the nodes whose tuning was interrupted, oldest first: each has the promise of a trial."""
    nodes = (history[NodeId(node)] for node in Tunings.of(history.runs[run], pool).open)
    return [node for node in nodes if node.is_pending]


def _is_tunable(history: History, node: Node, tuning: Tuning | None) -> bool:
    """Say whether tuning the node makes sense: its code is new, and its parameters lie in the space."""
    if tuning is None or not tuning.spec.trials or node.tuned is not None or node.pool is not Pool.ATTEMPT:
        return False
    space = join_space(tuning.space, node.declared)
    is_new = bool(node.edits) or _is_untuned_draft(history, node)
    return bool(space) and is_new and space.fault(node.params) is None


def _is_untuned_draft(history: History, node: Node) -> bool:
    """Say whether a person or an agent made the program and chose no values for the parameters it declares."""
    parent = history[node.id.parent] if node.id.parent else None
    if parent is None or not node.declared or node.tree == parent.tree:
        return False
    inherited = {name: value for name, value in parent.params.items() if name in node.declared}
    return complete_params(node.declared, {**node.task_params, **inherited}) == dict(node.params)


def _end_reason(node: Node, known: OpenTuning, tuning: Tuning | None) -> str | None:
    """Tell why no further point is measured, or None."""
    if tuning is None or tuning.spec.slice != known.slice:
        return "[tune] was changed"
    if len(known.points) >= known.trials:
        return f"all {known.trials} tune trials of a proposal were made"
    if known.points and known.points[0].score is None:
        return "the proposal gives no score on the slice"
    if node.losses_in_row >= _LOSSES_UNTIL_END:
        return f"{_LOSSES_UNTIL_END} tune trials in a row were lost"
    return None


def _promoted_params(history: History, node: Node, known: OpenTuning) -> Params:
    """Return the best point on the slice; the proposal's own if none is better, or the better ones were tried."""
    direction, proposed = _direction(history, node), known.points[0].score if known.points else None
    scored = [(point.score, point.params) for point in known.points if point.score is not None]
    for score, params in sorted(scored, key=lambda item: -direction.sign * item[0]):
        if proposed is None or direction.sign * (score - proposed) <= 0:
            break
        if history.twin(node.id.run, node.pool, identity(node.tree, params)) is None:
            return params
    return node.params


def _direction(history: History, node: Node) -> Direction:
    metrics = history.counting_metrics(node.id.run)
    return score_metric(metrics).direction if metrics else history.runs[node.id.run].objective.direction


class Judging(Record):
    """What verdicts depend on besides the history."""

    pools: Pools
    noise: Noise
    review: str = "off"
    """What happens to a winner that the verifier objects to, as in the task."""
    tuning: Tuning | None = None
    """How the parameters of a code change are tuned before its first judging trial; None where they are not."""
    editable_share: float | None = None
    """The share of a trial's time that a change can save, where it is known."""
