"""Going on where another machine left off: the baseline and the incumbent are measured here first."""

from __future__ import annotations

import asyncio

from loopty.core.errors import Misuse
from loopty.core.events import Rebaselined
from loopty.core.history import History
from loopty.core.ids import NodeId
from loopty.core.judge import floor_known
from loopty.core.measure import Measure, Watch
from loopty.core.objective import Metrics, gain
from loopty.core.outcome import Ending, Pool
from loopty.core.records import Run
from loopty.core.task import Noise


async def measured_here(
    measure: Measure, run: Run, fingerprint: str, noise: Noise, watch: Watch, cancel: asyncio.Event
) -> Rebaselined | None:
    """Measure both in turns until their noise is known; None when it was stopped, to go on another time."""
    nodes = list(dict.fromkeys((run.root, run.account(Pool.ATTEMPT).best or run.root)))

    def unknown() -> list[NodeId]:
        return [node for node in nodes if not floor_known(_samples(measure.history, node, fingerprint), noise)]

    while wanted := unknown():
        for node in wanted:
            trial = measure.looking(measure.history[node], Pool.REBASE)
            outcome = await measure.looked(trial, watch, cancel)
            if outcome.ending is Ending.CANCELLED:
                return None
            if not outcome.finished:
                raise Misuse(f"node {node} gives no result here ({outcome.ending}: {outcome.reason})")
    return Rebaselined(run.number, fingerprint, _better(measure.history, nodes, fingerprint))


def _better(history: History, nodes: list[NodeId], fingerprint: str) -> NodeId:
    """The incumbent, unless the baseline is better here."""
    baseline, incumbent = (history[node].result(fingerprint) for node in (nodes[0], nodes[-1]))
    assert baseline is not None
    assert incumbent is not None
    metrics = history.yardstick(nodes[0].run)
    better = gain(incumbent.outcome.metrics, baseline.outcome.metrics, metrics).amount >= 0
    return nodes[-1] if better else nodes[0]


def _samples(history: History, node: NodeId, fingerprint: str) -> tuple[Metrics, ...]:
    found = history[node].result(fingerprint)
    return found.samples if found else ()
