"""The family of tune mode: the points of a proposal's parameters that the slice measured, and the best one."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.space import Value
from loopty.domain.trial import Ending, Pool
from loopty.kit.records import Record, field, replace
from loopty.record import node_record
from loopty.record.fold import Event, Family, FoldState
from loopty.record.node_record import TunedParams
from loopty.record.run_record import PoolPart, RunPart
from loopty.record.trials import TrialEnded, Trials, trial_name
from loopty.record.verdicts import NodeJudged

MOST_PAIRS = 64


class TuningStarted(Event):
    """The node's parameters are tuned on the slice before its first judging trial."""

    node: NodeId
    slice: str
    sampler: str
    trials: int


class TunePointChosen(Event):
    """The tune trial with this number measures the node at this point."""

    node: NodeId
    number: int
    params: Mapping[str, Value]


class NodeTuned(Event):
    """The tuning is over: the node has these parameters from now on."""

    node: NodeId
    params: Mapping[str, Value]
    reason: str


class TunePoint(Record):
    """A point, and the first metric that the slice gave there; None where it gave none."""

    params: Mapping[str, Value]
    score: float | None = None


class OpenTuning(Record):
    """The tuning of a node that waits for its attempt."""

    slice: str
    sampler: str
    trials: int
    points: tuple[TunePoint, ...] = ()
    """Those that were measured, oldest first; the first one is the proposal as it was made."""
    chosen: Mapping[str, Value] | None = None
    """The point of the trial that runs."""


class Tunings(PoolPart):
    """The nodes of a pool that are tuned now. Each has the promise of one attempt."""

    open: Mapping[str, OpenTuning] = field(default_factory=dict)


class SliceRecord(RunPart):
    """How well the slice did: for the newest slice alone."""

    slice: str = ""
    tuned: int = 0
    """Nodes that were tuned on it."""
    moved: int = 0
    """Those of them that got other parameters than they were proposed with."""
    pairs: tuple[tuple[float, float], ...] = ()
    """The score on the slice and that of the attempt, of the newest nodes measured both ways."""


def _start(state: FoldState, event: TuningStarted, _at: float) -> None:
    run, node = state.runs[event.node.run], state[event.node]
    opened = {**Tunings.of(run, node.pool).open, event.node: OpenTuning(event.slice, event.sampler, event.trials)}
    record = SliceRecord.of(run)
    if record.slice != event.slice:
        record = SliceRecord(event.slice)
    state.put_run(run.with_pool_part(node.pool, Tunings(opened)).with_part(record))


def _choose(state: FoldState, event: TunePointChosen, _at: float) -> None:
    """Let the node run now: no other process may start a trial of it meanwhile."""
    node, run = state[event.node], state.runs[event.node.run]
    _put(state, event.node, replace(Tunings.of(run, node.pool).open[event.node], chosen=event.params))
    state.put(replace(node, running=True))


def _end(state: FoldState, event: TrialEnded, _at: float) -> None:
    run, outcome = state.runs[event.node.run], event.outcome
    trial = Trials.of(run).running[trial_name(event.node, event.number)]
    if trial.pool is not Pool.TUNE:
        return
    node = state[event.node]
    is_cancelled = outcome.ending is Ending.CANCELLED
    state.put(node_record.stop_running(node, is_cancelled, event.lost))
    tuning = Tunings.of(run, node.pool).open.get(event.node)
    if tuning is None or tuning.chosen is None:
        return
    if is_cancelled:
        _put(state, event.node, replace(tuning, chosen=None))
        return
    metrics = state.counting_metrics(run.number)
    score = outcome.metrics.get(score_metric(metrics).name) if outcome.is_finished and metrics else None
    points = (*tuning.points, TunePoint(tuning.chosen, score))
    _put(state, event.node, replace(tuning, points=points, chosen=None))


def _tuned(state: FoldState, event: NodeTuned, _at: float) -> None:
    run, node = state.runs[event.node.run], state[event.node]
    opened = dict(Tunings.of(run, node.pool).open)
    tuning = opened.pop(event.node)
    scores = {_key(point.params): point.score for point in reversed(tuning.points)}
    before, promoted = scores.get(_key(node.params)), scores.get(_key(event.params))
    record, is_moved = SliceRecord.of(run), event.params != node.params
    if tuning.points:
        record = replace(record, tuned=record.tuned + 1, moved=record.moved + is_moved)
    tuned = TunedParams(tuning.slice, len(tuning.points), event.reason, before, promoted, node.params)
    state.put(replace(node, params=event.params, tuned=tuned))
    state.put_run(run.with_pool_part(node.pool, Tunings(opened)).with_part(record))


def _judge(state: FoldState, event: NodeJudged, _at: float) -> None:
    """Note what the slice and the whole benchmark said about the same node."""
    node, run = state[event.node], state.runs[event.node.run]
    if node.tuned is None or node.tuned.score is None or node.outcome is None or not node.outcome.is_finished:
        return
    record, whole = SliceRecord.of(run), state.score(node)
    is_again = node.withdrawn is not None or bool(node.reopened_for)
    if whole is None or is_again or record.slice != node.tuned.slice:
        return
    pairs = (*record.pairs, (node.tuned.score, whole))[-MOST_PAIRS:]
    state.put_run(run.with_part(replace(record, pairs=pairs)))


def _put(state: FoldState, node: NodeId, tuning: OpenTuning) -> None:
    run, pool = state.runs[node.run], state[node].pool
    state.put_run(run.with_pool_part(pool, Tunings({**Tunings.of(run, pool).open, node: tuning})))


def _key(params: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted(params.items()))


TUNINGS = Family(
    (TuningStarted, TunePointChosen, NodeTuned),
    {TuningStarted: _start, TunePointChosen: _choose, TrialEnded: _end, NodeTuned: _tuned, NodeJudged: _judge},
)
