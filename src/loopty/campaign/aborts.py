"""Ends work before its result: a ticket, or a draft."""

from __future__ import annotations

import os
import signal

from loopty.campaign.context import CampaignContext
from loopty.campaign.new_drafts import drop_draft
from loopty.campaign.ticket_desk import attempt_of, end_ticket
from loopty.campaign.ticket_results import TicketFiles, TicketResult
from loopty.campaign.ticket_worker import worker_of
from loopty.domain.errors import Misuse
from loopty.record.node_record import Node
from loopty.record.tickets import Tickets, ticket_parts


def abort_node(context: CampaignContext, node: Node, why: str) -> str:
    """End the open ticket of a node, or give up its draft; returns what was done. Raises Misuse."""
    if name := attempt_of(context.history, node):
        return abort_ticket(context, name, why)
    if not node.draft:
        raise Misuse(f"{node.name} has no open ticket: nothing to abort")
    drop_draft(context, node.id)
    return f"dropped {node.name}"


def abort_ticket(context: CampaignContext, name: str, why: str) -> str:
    """End a ticket and stop what runs for it. Its node can be submitted again. Raises Misuse."""
    run, number = ticket_parts(name)
    found = context.history.runs.get(run)
    ticket = Tickets.of(found).open.get(str(number)) if found else None
    if ticket is None:
        raise Misuse(f"{name} is not open: it has ended, or never was")
    files = TicketFiles(context.state)
    reason = f"aborted: {why}" if why else "aborted"
    files.save(run, number, TicketResult(ticket.node, ticket.mode, fault=reason))
    worker = worker_of(files, run, number)
    end_ticket(context, run, number, reason)
    if worker and worker == worker_of(files, run, number):
        os.kill(worker, signal.SIGINT)
    return f"aborted {name} ({ticket.mode} of {context.history.name(ticket.node)})"
