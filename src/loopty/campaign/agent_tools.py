"""The tools of agents: one JSON object in, one out. Every way in leads here, and all of it may be hostile."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loopty.campaign.campaign import Campaign
from loopty.campaign.node_excerpts import node_excerpt
from loopty.campaign.open_tool import open_draft
from loopty.campaign.ticket_tools import Reply, TicketTools
from loopty.campaign.tool_arguments import check_arguments
from loopty.campaign.tool_replies import DEFAULT_LINES, DEFAULT_WORDS, LONGEST_TEXT, cut_reply
from loopty.domain.errors import LooptyError, Misuse
from loopty.kit.untrusted_files import Unreadable, json_object
from loopty.record.notes import NoteAdded
from loopty.tools.tool_table import LARGEST_CALL, asks_for_help, tool_help

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
    """The name of a client; one that is no plain name is not used."""
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
        from loopty.campaign.queries import search_context
        from loopty.record.acknowledgements import DirectiveSeen, directive_digest, unseen_directive
        from loopty.report.context_text import context_sections, context_text

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
        """The newest run; the first one begins here, because agents ask for the context before all else."""
        from loopty.campaign.run_entry import enter_run

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
        from loopty.campaign.managed_tool import manage

        return manage(self._campaign, self._client, self._tickets, arguments)
