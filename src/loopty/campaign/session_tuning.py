"""A coding agent that loopty has started measures its own tree on the slice, as often as the pool of tunes pays.

The measurement is a ticket: it is charged before it runs, and one that a killed process leaves open is taken by
the next worker, as every ticket is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from loopty.campaign.by_hand import check_trial
from loopty.campaign.context import CampaignContext
from loopty.campaign.stoppable import never_prune
from loopty.campaign.ticket_desk import end_ticket, point_of, require_limit
from loopty.campaign.ticket_results import TicketFiles
from loopty.campaign.ticket_worker import lock_ticket
from loopty.domain.errors import Misuse
from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.engine.budget import trial_refusal
from loopty.kit.fence import fence_text
from loopty.kit.records import replace
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.tickets import TicketMode, TicketOpened, Tickets
from loopty.report.figures import figure, value_text

_MOST_METRICS = 6
_LINE_CHARS = 2_000


async def tune_session(
    context: CampaignContext,
    unsafe: bool,
    node: Node,
    client: str,
    values: Mapping[str, Value | str],
    stop: asyncio.Event,
) -> dict[str, Any]:
    """Measure the agent's files, as a node that is not recorded, with these values on the slice of `[tune]`."""
    if not context.task.tune:
        raise Misuse("the task has no [tune] slice: try a command of your own instead")
    node = replace(node, params=point_of(context.task.space, node, values))
    trial = replace(check_trial(context, node), slice=context.task.tune.slice)
    files, run, fault = TicketFiles(context.state), node.id.run, "its session ended"
    with contextlib.ExitStack() as held:
        number = _open_ticket(context, files, node, client, held)
        try:
            outcome = await context.executor(unsafe, run).execute(trial, never_prune, stop)
            fault = outcome.reason if outcome.ending is Ending.CANCELLED else ""
        finally:
            end_ticket(context, run, number, fault)
            files.lock(run, number).remove()
    point = ", ".join(f"{name} = {value_text(value)}" for name, value in node.params.items()) or "no parameters"
    if not outcome.is_finished:
        lines = fence_text("what it printed", "\n".join(outcome.error_lines), _LINE_CHARS)
        return {"text": f"{outcome.reason} ({point})\n{lines}", "problem": outcome.reason, "state": "done"}
    metrics = dict(list(outcome.metrics.items())[:_MOST_METRICS])
    shown = ", ".join(f"{name} {figure(value)}" for name, value in metrics.items())
    text = f"{shown} on the slice with {point}; no attempt charged, and this score is ranked nowhere"
    return {"text": text, "metrics": metrics, "params": dict(node.params), "state": "done"}


def _open_ticket(
    context: CampaignContext, files: TicketFiles, node: Node, client: str, held: contextlib.ExitStack
) -> int:
    """Charge the measurement. The ticket is locked before anybody can see it, so no worker takes it."""
    run, newest = node.id.run, 0

    def decide(history: History) -> Iterator[Event]:
        nonlocal newest
        require_limit(trial_refusal(history.runs[run], context.task.pools, Pool.TUNE))
        newest = Tickets.of(history.runs[run]).newest + 1
        held.enter_context(lock_ticket(files.lock(run, newest)))
        measured = node.commit, node.tree
        yield TicketOpened(run, newest, node.id, TicketMode.TUNE, client, *measured, params=node.params)

    context.recorder.record(decide)
    return newest
