"""Notices workers whose measurements change: a fold over the events of a session."""

from __future__ import annotations

from collections import deque

from loopty.domain.drift import Drift, drift_of
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.kit.records import Record
from loopty.record.event import Event
from loopty.record.trials import TrialEnded
from loopty.record.workers import LeaseLost, TrialLeased, WorkerDrifted, WorkerLeft

_MOST_VALUES = 40
"""Of one node on one worker; older ones are forgotten."""
_MOST_NODES = 64
"""For each worker: those that are measured again and again are the incumbents."""


class WorkerDrift(Record):
    """What one worker measures of a node has changed."""

    worker: str
    node: NodeId
    metric: str
    drift: Drift

    @property
    def reason(self) -> str:
        drift = self.drift
        return (
            f"{self.metric} of the same node was {drift.before:.4g} there and is {drift.now:.4g} now "
            f"({drift.share:+.0%}; the noise is {drift.noise:.2g})"
        )


class WorkerPaces:
    """What each worker has measured of each node. Give it every event of a session, in order."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._held: dict[tuple[NodeId, int], str] = {}
        self._values: dict[str, dict[NodeId, deque[float]]] = {}

    def apply(self, event: Event) -> WorkerDrift | None:
        """Take one event; returns the drift that it shows."""
        if isinstance(event, TrialLeased):
            self._held[event.node, event.number] = event.worker
        elif isinstance(event, LeaseLost):
            self._held.pop((event.node, event.number), None)
        elif isinstance(event, WorkerLeft | WorkerDrifted):  # afterwards everything there is new
            self._values.pop(event.worker, None)
        elif isinstance(event, TrialEnded):
            return self._end(event)
        return None

    def _end(self, event: TrialEnded) -> WorkerDrift | None:
        worker = self._held.pop((event.node, event.number), None)
        outcome = event.outcome
        if worker is None or not outcome.is_finished or not outcome.metrics:
            return None
        metric = self._objective.counting_metrics(outcome.metrics, outcome.directions)[0].name
        if metric not in outcome.metrics:
            return None
        nodes = self._values.setdefault(worker, {})
        values = nodes.pop(event.node, None) or deque(maxlen=_MOST_VALUES)
        nodes[event.node] = values  # the last one measured is the last one forgotten
        values.append(outcome.metrics[metric])
        if len(nodes) > _MOST_NODES:
            del nodes[next(iter(nodes))]
        drift = drift_of(list(values))
        return WorkerDrift(worker, event.node, metric, drift) if drift else None
