"""What stands behind every door: reads a call, does what all clients may do, and bounds the reply."""

from __future__ import annotations

import functools
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.kit.foreign_text import escape_hidden, fence_text
from loopty.kit.records import Record
from loopty.kit.untrusted_files import Unreadable, json_object
from loopty.record.directives import NoteAdded
from loopty.record.node_record import Node
from loopty.record.trials import Trials
from loopty.record.verdicts import Incumbents
from loopty.session import lookup
from loopty.session.context import CampaignContext
from loopty.session.queries import run_status, search_context
from loopty.session.reader import CampaignReader
from loopty.show.node import detail
from loopty.show.run_status import RunState, RunStatus
from loopty.show.search_context import context_sections, context_text
from loopty.show.ticket_text import attempt_text
from loopty.tools.table import (
    DEFAULT_LINES,
    DEFAULT_WORDS,
    LARGEST_CALL,
    Arguments,
    asks_for_help,
    check_arguments,
    tool_help,
)
from loopty.workspaces.node_leftovers import NodeLeftovers

_LARGEST_REPLY = 8_000
"""Characters. Hosts cut longer ones."""
_LONGEST_TEXT = _LARGEST_REPLY - 600
"""Characters: the rest of a reply has its names and its JSON."""

Reply = dict[str, Any]
Answer = Reply | Awaitable[Reply]


class Call(Record):
    """A call of a tool. Nothing in it is checked yet."""

    tool: str
    arguments: Any
    client: object

    @classmethod
    def read(cls, raw: bytes) -> Call:
        """Read `{"tool": …, "arguments": {…}, "client": …}`. Raises Misuse."""
        if len(raw) > LARGEST_CALL:
            raise Misuse(f"the call has {len(raw):,} bytes, more than {LARGEST_CALL:,}")
        try:
            call = json_object(raw)
        except Unreadable as error:
            raise Misuse(f"the call {error}") from None
        if not isinstance(tool := call.get("tool"), str):
            raise Misuse("the call names no tool")
        return cls(tool, call.get("arguments") or {}, call.get("client"))


class Desk(ABC):
    """Does what the tools say, for one client."""

    noted: str
    """What is said when a note was taken."""

    def __init__(self, top: Path, client: str) -> None:
        """`client` is the author of its notes; `top` is any folder of the repository."""
        self._top, self.client = top, client

    @functools.cached_property
    def context(self) -> CampaignContext:
        return CampaignContext.open(self._top, lambda _: None)

    @functools.cached_property
    def reader(self) -> CampaignReader:
        return CampaignReader(self._top)

    @property
    @abstractmethod
    def tools(self) -> Mapping[str, Callable[[Arguments], Answer]]:
        """Return what this client may call, by the names of the table."""

    def node(self, name: str) -> Node:
        """Find a node that this client may look at. Raises Misuse."""
        # What is only read needs no task file.
        return self.context.history[self.find(name)] if "context" in self.__dict__ else self.reader.node(name)

    def find(self, name: str) -> NodeId:
        """Find the id of a node, which may be the baseline of a run that begins now."""
        return lookup.node_of_text(name) or lookup.find_node(self.context.history, name)

    @abstractmethod
    def run(self) -> int:
        """Return the run that this client works on."""

    def answer(self, tool: str, arguments: Any) -> Answer:
        """Answer a call. Raises LooptyError, with the remedy."""
        if asks_for_help(tool, arguments):
            return {"text": tool_help(tool)}
        checked = check_arguments(tool, arguments)
        return self.tools[tool](checked)

    def show_context(self, given: Arguments) -> Reply:
        run, context = self.run(), self.context
        node = self.node(given["id"]) if "id" in given else None
        about, of_run = (node.id, node.id.run) if node else (self.home(), run)
        found = search_context(context.state, context.owners, context.history, of_run, about)
        text = context_text(context_sections(found, given.get("words", DEFAULT_WORDS)))
        return {"text": text, "run": run}

    def home(self) -> NodeId | None:
        """Return the node that the context is about where the client names none."""
        return None

    def show(self, given: Arguments) -> Reply:
        node, what = self.node(given["id"]), given["what"]
        text = _excerpt(self.reader, node, what, given.get("lines", DEFAULT_LINES))
        return {"text": text, "id": node.id, "what": what}

    def note(self, given: Arguments) -> Reply:
        text, run = given["text"].strip(), self.run()
        if not text:
            raise Misuse("the note is empty")
        node = self.node(given["id"]).id if "id" in given else None
        added = NoteAdded(node.run if node else run, self.client, text, node)
        self.context.recorder.record(lambda _: [added])
        return {"text": self.noted, "at": time.time()}

    def verdict_reply(self, node: Node, directive: str = "") -> Reply:
        """Describe a node that is decided."""
        context, run = self.context, self.context.history.runs[node.id.run]
        best = Incumbents.of(run, Pool.ATTEMPT).best
        named = context.history.name(best) if best and best != node.id else "this one"
        lines = node.outcome.error_lines if node.outcome else ()
        found, left = detail(context.history, node.id), self._status(node).left
        text = attempt_text(found, named if best else "", lines, left, directive)
        score = context.history.score(node)
        return {
            "text": text,
            "state": "done",
            "id": node.id,
            "verdict": str(node.verdict),
            "score": score,
            "best": best,
        }

    def undecided_reply(self, node: Node) -> Reply:
        """Say how far a node without a verdict or a ticket is. Raises Misuse where nothing works on it."""
        is_driven = self._status(node).state is RunState.RUNNING
        if node.dropped:
            raise Misuse(f"{node.name} was dropped: open a new one")
        if node.draft or not (node.running or is_driven):
            raise Misuse(f"{node.name} has no open ticket: submit it")
        how_far = self.measured(node) or "next in line, or waiting for a slot"
        text = f"{node.name} still running: {how_far}. Call wait with id {node.name}."
        return {"text": text, "id": node.id, "state": "running"}

    def measured(self, node: Node) -> str:
        """Say how far its measurement is; empty where it is not measured now."""
        running = Trials.of(self.context.history.runs[node.id.run]).running
        if not (node.running or any((row.subject or name) == node.id for name, row in running.items())):
            return ""
        pairs = len(node.pairing.pairs_so_far) if node.pairing else 0
        return f"measured now, {pairs} pairs so far" if pairs else "measured now"

    def _status(self, node: Node) -> RunStatus:
        context = self.context
        return run_status(context.state, context.owners, context.history, node.id.run)


def encode_reply(reply: Reply) -> bytes:
    """Write a reply as JSON, without hidden characters, cut to the longest that hosts show."""
    return json.dumps(_cut(reply), ensure_ascii=False).encode()


def _cut(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply without hidden characters, cut to the longest that hosts show."""
    key = "error" if "error" in reply else "text"
    text = escape_hidden(str(reply[key]))
    if len(text) > _LONGEST_TEXT:
        text = f"{text[: _LONGEST_TEXT - 1]}…"
    bounded = {**reply, key: text}
    while len(json.dumps(bounded, ensure_ascii=False)) > _LARGEST_REPLY:
        if len(bounded) > 1:
            bounded.pop(next(name for name in reversed(bounded) if name != key))
        else:
            bounded[key] = f"{bounded[key][: len(bounded[key]) * 3 // 4]}…"
    return bounded


def _excerpt(reader: CampaignReader, node: Node, what: str, lines: int) -> str:
    """Cut what is wanted to so many lines, and to what a reply can hold. `what` is diff, gate, log or traces."""
    name, longest = node.name, _LONGEST_TEXT
    if what == "diff":
        patch = reader.diff(node.id).patch.splitlines()
        more = f"\n… {len(patch) - lines} more lines" if len(patch) > lines else ""
        return fence_text(f"the change of {name}", "\n".join(patch[:lines]) + more, longest, exact=True)
    if what == "gate":
        gates = [f"{gate.name}: {gate.command or gate.metric}" for _, gate in reader.gates(node.id)]
        printed = node.outcome.error_lines if node.outcome else ()
        text = "\n".join((f"verdict: {node.verdict}: {node.reason}", *gates, *printed)[-lines:])
        return fence_text(f"the gates of {name}, and what a failed one printed", text, longest)
    left = NodeLeftovers(reader.record.folders).read(node)
    if what == "log":
        outputs = {"stdout:": left.stdout, "stderr:": left.stderr}
        text = "\n".join("\n".join((head, *output.splitlines()[-lines:])) for head, output in outputs.items())
        return fence_text(f"the end of the output of {name}", text, longest)
    texts = (f"{task}\n{text}" for task, text in left.traces.items())
    text = "\n".join("\n".join(texts).splitlines()[:lines])
    return fence_text(f"the traces of {name}, failed tasks first", text or "none", longest)
