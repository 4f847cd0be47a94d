"""Has a machine changed? Notices workers whose measurements of one node are not what they were.

The last measurements have to agree: all of them lie on one side of the earlier ones, each by more than the noise
explains. So one outlier, and a burst that ends, raise no alarm; a machine that stays slower or faster does, after
as many measurements as have to agree. docs/workers.md has the measured rate of false alarms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from loopty.domain.evidence import median, noise_floor
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.kit.records import Record
from loopty.record.fold import Event
from loopty.record.trials import TrialEnded
from loopty.record.workers import LeaseLost, TrialLeased, WorkerDrifted, WorkerLeft

NEWEST = 4
"""So many measurements have to agree."""
LEAST_BEFORE = 8
"""So many earlier ones say how much the node varies there."""
_TIMES_NOISE = 3.0
_LEAST_SHARE = 0.01
"""A smaller change of the value is none that a person would act on."""
_VALUE = "value"


class Drift(Record):
    """A change of what a machine measures of one node."""

    before: float
    now: float
    noise: float
    """The robust standard deviation of one measurement, before the change."""

    @property
    def share(self) -> float:
        """Compute the change as a share of what it was; infinite if that was 0."""
        return (self.now - self.before) / abs(self.before) if self.before else float("inf")


def drift_of(values: Sequence[float]) -> Drift | None:
    """Compute the drift that the newest of these measurements of one node show; None if noise explains them."""
    before, newest = values[:-NEWEST], values[-NEWEST:]
    if len(before) < LEAST_BEFORE:
        return None
    middle = median(before)
    noise = _noise(before)
    # Of all, too: a few measurements may be alike by luck, and one step changes the estimate little.
    least = max(_TIMES_NOISE * max(noise, _noise(values)), _LEAST_SHARE * abs(middle))
    changes = [value - middle for value in newest]
    if min(changes) > least or max(changes) < -least:
        return Drift(middle, median(newest), noise)
    return None


def _noise(values: Sequence[float]) -> float:
    return noise_floor([{_VALUE: value} for value in values])[_VALUE]


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
