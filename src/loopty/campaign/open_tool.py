"""The tool `open`: a draft that is its client's alone, for a hypothesis that nobody else works on or has tried."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopty.campaign.campaign import Campaign
from loopty.campaign.new_drafts import Draft, DraftClaim, new_draft
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId, handle_name
from loopty.record.claims import Claims
from loopty.record.history import History
from loopty.record.node_record import Node

_MOST_SIBLINGS = 100
_MOST_NAMED = 12


def open_draft(campaign: Campaign, client: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Open a draft below a node, or with the changes of two."""
    hypothesis = " ".join(arguments["hypothesis"].split())
    surface = " ".join(arguments.get("surface", "").split())
    if not hypothesis:
        raise Misuse("the hypothesis is empty: say what you change and why it helps")
    if "merge" in arguments and ("parent" in arguments or "params" in arguments):
        raise Misuse("give merge, or parent and params, not both")
    claim = DraftClaim(client, surface, require_new=_twin_check(hypothesis, time.time()))
    if "merge" in arguments:
        return _merge(campaign, arguments["merge"], hypothesis, claim)
    above = campaign.find_node(arguments["parent"]) if "parent" in arguments else None
    draft = new_draft(campaign.context, above, hypothesis, arguments.get("params", {}), claim=claim)
    return _reply(campaign, draft, "")


def _merge(campaign: Campaign, nodes: Sequence[str], hypothesis: str, claim: DraftClaim) -> dict[str, Any]:
    from loopty.campaign.merge_drafts import merge_drafts

    first, second = map(campaign.find_node, nodes)
    merged = merge_drafts(campaign.context, first, second, hypothesis, claim)
    ours, other, since = map(campaign.history.name, (merged.parent, merged.other, merged.ancestor))
    said = f"It holds the changes of {ours} and {other} since {since}. "
    if merged.conflicts:
        said += f"Conflicts, marked with <<<<<<< in the files: {', '.join(merged.conflicts[:_MOST_NAMED])}. "
    parents = {"parents": [merged.parent, merged.other], "conflicts": list(merged.conflicts)}
    return _reply(campaign, merged.draft, said) | parents


def _reply(campaign: Campaign, draft: Draft, said: str) -> dict[str, Any]:
    writable = campaign.context.task.access.write
    count, name = len(draft.files), handle_name(draft.handle)
    text = (
        f"Opened {name}: edit the files in {draft.folder} "
        f"({count} writable: {', '.join(writable[:_MOST_NAMED]) or 'none'}). {said}"
        f"Then check, and submit with id {name}; submit takes a patch where you cannot write."
    )
    return {"text": text, "id": draft.node, "handle": draft.handle, "folder": str(draft.folder)}


def _twin_check(hypothesis: str, now: float) -> Callable[[History, Node], None]:
    words = _normal(hypothesis)

    def require_new(history: History, parent: Node) -> None:
        for name, claim in Claims.of(history.runs[parent.id.run]).by_node.items():
            node = NodeId(name)
            if node.parent == parent.id and claim.is_fresh(now) and _normal(claim.summary) == words:
                minutes = (now - claim.since) / 60
                raise Misuse(
                    f"{claim.author} has worked on this as {history.name(node)} for {minutes:.0f} min: "
                    "take another one"
                )
        for number in range(parent.children, max(parent.children - _MOST_SIBLINGS, 0), -1):
            # Decoded as far as needed: there may be a hundred of them.
            known = json.loads(history.page(parent.id.child(number)))
            if known.get("verdict") and _normal(known.get("summary", "")) == words:
                child = history[parent.id.child(number)]
                raise Misuse(
                    f"this was tried on {parent.name} as {child.name}: {child.verdict} "
                    f"({child.reason[:120]}); take another one, or say what is different"
                )

    return require_new


def _normal(text: str) -> list[str]:
    """The words of a hypothesis, whatever their case and marks."""
    return "".join(letter if letter.isalnum() else " " for letter in text.casefold()).split()
