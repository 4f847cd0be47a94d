"""Every trial of a run as one row, for other programs. Audits are left out: the search must not see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from loopty.domain.ids import NodeId
from loopty.domain.space import Value
from loopty.domain.trial import Pool
from loopty.kit.records import Record
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.tunings import TunePointChosen


class TrialRow(Record):
    """One trial that ended, and the node that it measured."""

    run: int
    node: NodeId
    handle: int
    trial: int
    """The number of the trial among those of its node."""
    pool: Pool
    parent: str
    operator: str
    summary: str
    verdict: str
    """About the node, as it is now; empty where there is none yet."""
    verdict_reason: str
    ending: str
    ending_reason: str
    started_at: float
    """Seconds since the epoch."""
    seconds: float
    fingerprint: str
    """Trials under different fingerprints are not comparable."""
    params: Mapping[str, Value]
    metrics: Mapping[str, float]


def trial_rows(history: History, events: Iterable[Recorded], run: int) -> Iterator[TrialRow]:
    """Yield the trials of a run in the order in which they ended; `events` are all events, oldest first."""
    started: dict[tuple[NodeId, int], tuple[float, Pool]] = {}
    points: dict[NodeId, Mapping[str, Value]] = {}
    for recorded in events:
        match recorded.event:
            case TrialStarted(node, number, pool) if node.run == run and pool is not Pool.AUDIT:
                started[node, number] = recorded.at, pool
            case TunePointChosen(node, number, params) if (node, number) in started:
                points[node] = params
            case TrialEnded(node, number) as ended if (node, number) in started:
                at, pool = started.pop((node, number))
                yield _row(history, ended, at, pool, points.pop(node, history[node].params))


def _row(history: History, ended: TrialEnded, at: float, pool: Pool, params: Mapping[str, Value]) -> TrialRow:
    node, outcome = history[ended.node], ended.outcome
    return TrialRow(
        run=node.id.run,
        node=node.id,
        handle=node.handle,
        trial=ended.number,
        pool=pool,
        parent=node.id.parent or "",
        operator=node.operator,
        summary=node.summary,
        verdict=node.verdict or "",
        verdict_reason=node.reason,
        ending="lost" if ended.lost else outcome.ending,
        ending_reason=outcome.reason,
        started_at=at,
        seconds=outcome.seconds,
        fingerprint=outcome.fingerprint,
        params=params,
        metrics=outcome.metrics,
    )
