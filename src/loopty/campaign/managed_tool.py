"""The tool `manage`: what agents may do beyond experiments, as far as the task file permits it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopty.campaign.campaign import Campaign
from loopty.campaign.ticket_tools import TicketTools
from loopty.domain.agent_spec import AgentRight
from loopty.domain.errors import Misuse
from loopty.record.tickets import TicketMode


def manage(campaign: Campaign, client: str, tickets: TicketTools, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Do what `action` says. Raises Misuse where it is not permitted."""
    action, node = AgentRight(arguments["action"]), arguments["id"]
    permitted = campaign.context.task.agents.may
    if action not in permitted:
        named = ", ".join(permitted) or "nothing of this kind"
        raise Misuse(f"agents may not {action} here: they may {named} (`[agents] may` in loopty.toml)")
    campaign.context.require_trust()  # the file may be a clone's: its rights count after the user's yes
    why = f"{client}: {arguments.get('why', '')}".rstrip(": ")
    if action is AgentRight.ABORT:
        return {"text": campaign.abort(node, why), "id": node}
    if action is AgentRight.REMEASURE:
        return tickets.manage(node, TicketMode.REMEASURE)
    if action is AgentRight.GATE:
        gate = {"name": arguments.get("name", ""), "command": arguments.get("command", "")}
        if not all(gate.values()):
            raise Misuse("a gate needs a name and a command")
        return tickets.manage(node, TicketMode.GATE, json.dumps(gate))
    change = (campaign.discard if action is AgentRight.DISCARD else campaign.invalidate)(node, why)
    name = campaign.history.name
    withdrawn, reopened = (", ".join(map(name, nodes)) or "none" for nodes in (change.withdrawn, change.reopened))
    best = name(change.best) if change.best else "none"
    text = f"Withdrawn: {withdrawn}. Unjudged again: {reopened}. Best: {best}."
    return {"text": text, "best": change.best}
