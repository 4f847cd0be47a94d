"""The tools of agents: one JSON object in, one out. Every way in leads here, and all of it may be hostile."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loopty.campaign.campaign import Campaign
from loopty.campaign.open_tool import open_draft
from loopty.campaign.ticket_tools import Reply, TicketTools
from loopty.campaign.tool_arguments import check_arguments
from loopty.domain.errors import LooptyError, Misuse
from loopty.kit.fence import fence_text
from loopty.kit.printable import escape_hidden
from loopty.kit.untrusted_files import Unreadable, json_object
from loopty.record.notes import NoteAdded
from loopty.resident.tool_table import LARGEST_CALL, LARGEST_REPLY

_CLIENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,39}")
_DEFAULT_WORDS, _DEFAULT_LINES = 600, 80
_LONGEST_TEXT = LARGEST_REPLY - 600
"""Characters: the rest of a reply has its names and its JSON."""

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
            send(json.dumps(_bounded(reply), ensure_ascii=False).encode())

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
    arguments = check_arguments(tool, call.get("arguments") or {})
    return _Tools(Campaign(start), client_name(call.get("client")), reply).call(tool, arguments)


def _bounded(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The reply without hidden characters, cut to the longest that hosts show."""
    key = "error" if "error" in reply else "text"
    text = escape_hidden(str(reply[key]))
    if len(text) > _LONGEST_TEXT:
        text = f"{text[: _LONGEST_TEXT - 1]}…"
    bounded = {**reply, key: text}
    while len(json.dumps(bounded, ensure_ascii=False)) > LARGEST_REPLY:
        if len(bounded) > 1:
            bounded.pop(next(name for name in reversed(bounded) if name != key))
        else:
            bounded[key] = f"{bounded[key][: len(bounded[key]) * 3 // 4]}…"
    return bounded


class _Tools:
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
        found = search_context(context.state, context.history, node.run if node else run, node)
        text = context_text(context_sections(found, arguments.get("words", _DEFAULT_WORDS)))
        if directive := unseen_directive(context.history.runs[run], self._client):
            seen = DirectiveSeen(run, self._client, directive_digest(directive))
            context.recorder.record(lambda _: [seen])
        return {"text": text, "run": run}

    def _run(self) -> int:
        """The newest run; the first one begins here, because agents ask for the context before all else."""
        from loopty.campaign.run_entry import enter_run

        context = self._campaign.context
        return max(context.history.runs) if context.history.runs else enter_run(context)

    def _show(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        node, what = self._campaign.node(arguments["id"]), arguments["what"]
        lines = arguments.get("lines", _DEFAULT_LINES)
        return {"text": self._shown(node.id, what, lines), "id": node.id, "what": what}

    def _shown(self, node: str, what: str, lines: int) -> str:
        from loopty.workspaces.node_leftovers import NodeLeftovers

        found = self._campaign.node(node)
        if what == "diff":
            patch = self._campaign.diff(node).patch.splitlines()
            more = f"\n… {len(patch) - lines} more lines" if len(patch) > lines else ""
            return fence_text(f"the change of {node}", "\n".join(patch[:lines]) + more, _LONGEST_TEXT, exact=True)
        if what == "gate":
            gates = [f"{gate.name}: {gate.command or gate.metric}" for _, gate in self._campaign.gates(node)]
            printed = found.outcome.error_lines if found.outcome else ()
            text = "\n".join((f"verdict: {found.verdict}: {found.reason}", *gates, *printed)[-lines:])
            return fence_text(f"the gates of {node}, and what a failed one printed", text, _LONGEST_TEXT)
        left = NodeLeftovers(self._campaign.record.state).read(found)
        if what == "log":
            outputs = {"stdout:": left.stdout, "stderr:": left.stderr}
            text = "\n".join("\n".join((name, *output.splitlines()[-lines:])) for name, output in outputs.items())
            return fence_text(f"the end of the output of {node}", text, _LONGEST_TEXT)
        texts = (f"{task}\n{text}" for task, text in left.traces.items())
        text = "\n".join("\n".join(texts).splitlines()[:lines])
        return fence_text(f"the traces of {node}, failed tasks first", text or "none", _LONGEST_TEXT)

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
