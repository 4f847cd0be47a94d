"""How much of the record a verb checks for edits by hand, and what it says about that."""

from __future__ import annotations

from typing import Any

from loopty.campaign.reader import CampaignReader
from loopty.cli.output import say
from loopty.kit.records import Record


class RecordCheck(Record):
    """A check of the newest events and nodes, and of everything that was read before."""

    flaw: str | None
    """What was changed, with the remedy; None if nothing was."""
    events: int
    nodes: int
    """How many were checked."""
    all_events: int
    all_nodes: int

    @property
    def plain(self) -> dict[str, Any]:
        """What `--json` prints about it."""
        return {"flaw": self.flaw} if self.flaw else {"checked_events": self.events, "checked_nodes": self.nodes}

    def say(self) -> None:
        """Warn of a flaw; else say what was checked where that was not everything."""
        if self.flaw:
            say(f"warning: {self.flaw}")
        elif self.events < self.all_events:
            newest = f"the newest {self.nodes:,} of {self.all_nodes:,} nodes"
            say(
                "checked for edits by hand: what is shown here, "
                f"{newest if self.nodes < self.all_nodes else 'every node'} and the newest {self.events:,} of "
                f"{self.all_events:,} events (`loopty report --check` checks all)"
            )


def check_record(campaign: CampaignReader, events: int | None, nodes: int | None) -> RecordCheck:
    """Check so many of the newest events and nodes; all of them if None."""
    all_events, all_nodes = campaign.history.number, campaign.history.count
    flaw = campaign.flaw(events, nodes)
    checked_events = all_events if events is None else min(events, all_events)
    checked_nodes = all_nodes if nodes is None else min(nodes, all_nodes)
    return RecordCheck(flaw, checked_events, checked_nodes, all_events, all_nodes)
