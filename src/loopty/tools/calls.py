"""The tools of agents: one JSON object in, one out. Every way in leads here, and all of it may be hostile."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopty.campaign.campaign import Campaign
from loopty.domain.errors import LooptyError, Misuse
from loopty.domain.ids import NodeId, handle_name
from loopty.domain.task_tables import AgentRight
from loopty.features.agents.tool_arguments import (
    DEFAULT_LINES,
    DEFAULT_WORDS,
    LONGEST_TEXT,
    check_arguments,
    cut_reply,
    node_excerpt,
)
from loopty.features.agents.tool_table import LARGEST_CALL, asks_for_help, tool_help
from loopty.kit.untrusted_files import Unreadable, json_object
from loopty.record.directives import DirectiveSeen, NoteAdded, directive_digest, unseen_directive
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.tickets import Claims, TicketMode
from loopty.session.drafts import Draft, DraftClaim, merge_drafts, new_draft
from loopty.session.queries import search_context
from loopty.session.runs import enter_run
from loopty.show.search_context import context_sections, context_text
from loopty.tools.tickets import Reply, TicketTools

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
            known = json.loads(history.body(parent.id.child(number)))
            if known.get("verdict") and _normal(known.get("summary", "")) == words:
                child = history[parent.id.child(number)]
                raise Misuse(
                    f"this was tried on {parent.name} as {child.name}: {child.verdict} "
                    f"({child.reason[:120]}); take another one, or say what is different"
                )

    return require_new


def _normal(text: str) -> list[str]:
    """Split a hypothesis into words, whatever their case and marks."""
    return "".join(letter if letter.isalnum() else " " for letter in text.casefold()).split()


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


_CLIENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,39}")

Send = Callable[[bytes], None]
"""Sends a reply to the client, which may have gone."""


def answer_call(start: Path, raw: bytes, send: Send) -> None:
    """Answer one call: `{"tool": …, "arguments": {…}, "client": …}`, by at most 8,000 characters of JSON.

    A call that cannot be done is answered by `{"error": …}`, with the remedy. Work that was handed over may go on
    after the reply: for as long as this function runs, its process must not be ended.
    """
    was_sent = False

    def reply_once(reply: Mapping[str, Any]) -> None:
        nonlocal was_sent
        if not was_sent:
            was_sent = True
            send(json.dumps(cut_reply(reply), ensure_ascii=False).encode())

    try:
        if len(raw) > LARGEST_CALL:
            raise Misuse(f"the call has {len(raw):,} bytes, more than {LARGEST_CALL:,}")
        reply_once(_answer(start, json_object(raw), reply_once))
    except Unreadable as error:
        reply_once({"error": f"the call {error}"})
    except LooptyError as error:
        reply_once({"error": str(error)})
    except OSError as error:
        reply_once({"error": f"the file system refuses: {error}"})


def client_name(given: object) -> str:
    """Return the name of a client; one that is no plain name is not used."""
    return given if isinstance(given, str) and _CLIENT.fullmatch(given) else "agent"


def _answer(start: Path, call: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
    tool = call.get("tool")
    if not isinstance(tool, str):
        raise Misuse("the call names no tool")
    given = call.get("arguments") or {}
    if asks_for_help(tool, given):
        return {"text": tool_help(tool)}
    arguments = check_arguments(tool, given)
    return _ClientTools(Campaign(start), client_name(call.get("client")), reply).call(tool, arguments)


class _ClientTools:
    """The tools of one client, for one call."""

    def __init__(self, campaign: Campaign, client: str, reply: Reply) -> None:
        self._campaign, self._client = campaign, client
        self._tickets = TicketTools(campaign, client, reply)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        tools: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "context": self._context,
            "open": lambda given: open_draft(self._campaign, self._client, given),
            "try": self._tickets.try_command,
            "check": self._tickets.check,
            "submit": self._tickets.submit,
            "wait": self._tickets.wait,
            "show": self._show,
            "note": self._note,
            "manage": self._manage,
        }
        return tools[tool](arguments)

    def _context(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        run = self._run()
        context = self._campaign.context
        node = self._campaign.find_node(arguments["id"]) if "id" in arguments else None
        of_run = node.run if node else run
        found = search_context(context.state, context.owners, context.history, of_run, node)
        text = context_text(context_sections(found, arguments.get("words", DEFAULT_WORDS)))
        if directive := unseen_directive(context.history.runs[run], self._client, context.history.name):
            seen = DirectiveSeen(run, self._client, directive_digest(directive))
            context.recorder.record(lambda _: [seen])
        return {"text": text, "run": run}

    def _run(self) -> int:
        """Return the newest run; the first one begins here, because agents ask for the context first."""
        campaign = self._campaign
        return campaign.newest_run() if campaign.context.history.runs else enter_run(campaign.context)

    def _show(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        node, what = self._campaign.node(arguments["id"]), arguments["what"]
        lines = arguments.get("lines", DEFAULT_LINES)
        text = node_excerpt(self._campaign, node, what, lines, LONGEST_TEXT)
        return {"text": text, "id": node.id, "what": what}

    def _note(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        text, run = arguments["text"].strip(), self._run()
        if not text:
            raise Misuse("the note is empty")
        node = self._campaign.node(arguments["id"]).id if "id" in arguments else None
        added = NoteAdded(node.run if node else run, self._client, text, node)
        self._campaign.context.recorder.record(lambda _: [added])
        return {"text": "Noted: everybody sees it in the context.", "at": time.time()}

    def _manage(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return manage(self._campaign, self._client, self._tickets, arguments)
