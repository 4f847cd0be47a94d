"""The tools of clients from outside: hosts, shells and letters. All of a call may be hostile.

Work is handed over as a ticket, and asked for: what takes longer than a call goes on without its client.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loopty.domain.errors import LooptyError, Misuse
from loopty.domain.task_tables import AgentRight
from loopty.kit.foreign_text import fence_text
from loopty.record.directives import DirectiveSeen, directive_digest, unseen_directive
from loopty.record.node_record import Node
from loopty.record.recorder import Recorder
from loopty.record.tickets import Claims, OpenTicket, TicketMode, Tickets, ticket_name, ticket_parts
from loopty.session import lookup
from loopty.session.context import CampaignContext
from loopty.session.drafts import sealable_files
from loopty.session.runs import enter_run
from loopty.session.ticket_work import TicketWorker, abort_node, abort_ticket
from loopty.session.tickets import (
    TicketFiles,
    TicketResult,
    attempt_of,
    measurements_left,
    open_ticket,
    runs_benchmark,
)
from loopty.session.verdicts import discard, invalidate
from loopty.show.figures import figure
from loopty.show.ticket_text import error_excerpt
from loopty.tools.desk import Call, Desk, Reply, encode_reply
from loopty.tools.drafts import apply_patch, open_draft
from loopty.tools.table import DEFAULT_WAIT_SECONDS, Arguments

_CLIENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,39}")

Send = Callable[[bytes], None]
"""Sends a reply to the client, which may have gone."""
RequireOwnEdits = Callable[[CampaignContext, Node], None]
"""Raises Misuse where a draft holds edits of somebody who may not edit."""


def answer_call(start: Path, raw: bytes, send: Send, require_own_edits: RequireOwnEdits) -> None:
    """Answer one call: `{"tool": …, "arguments": {…}, "client": …}`, by at most 8,000 characters of JSON.

    A call that cannot be done is answered by `{"error": …}`, with the remedy. Work that was handed over may go on
    after the reply: for as long as this function runs, its process must not be ended.
    """
    was_sent = False

    def reply_once(reply: Reply) -> None:
        nonlocal was_sent
        if not was_sent:
            was_sent = True
            send(encode_reply(reply))

    try:
        call = Call.read(raw)
        desk = ClientDesk(start, client_name(call.client), reply_once, require_own_edits)
        reply = desk.answer(call.tool, call.arguments)
        assert isinstance(reply, dict), "a client is answered at once"
        reply_once(reply)
    except LooptyError as error:
        reply_once({"error": str(error)})
    except OSError as error:
        reply_once({"error": f"the file system refuses: {error}"})


def client_name(given: object) -> str:
    """Return the name of a client; one that is no plain name is not used."""
    return given if isinstance(given, str) and _CLIENT.fullmatch(given) else "agent"


_GRACE_SECONDS = 0.2
"""A process that does not work itself answers with more detail, and then in time."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
_LOG_CHARS = 6_000
_LINE_WORDS = 60
_MOST_NAMED = 12


class ClientDesk(Desk):
    """The tools of one client, for one call."""

    noted = "Noted: everybody sees it in the context."

    def __init__(
        self, start: Path, client: str, reply: Callable[[Reply], None], require_own_edits: RequireOwnEdits
    ) -> None:
        """`reply` answers the client; what is sent after its first call is dropped."""
        super().__init__(start, client)
        self._reply, self._require_own_edits = reply, require_own_edits
        self._ended: Reply | None = None
        """The result that was sent when the ticket had ended."""

    @property
    def tools(self) -> Mapping[str, Callable[[Arguments], Reply]]:
        return {
            "context": self.show_context,
            "open": lambda given: open_draft(self, given),
            "try": self._try,
            "check": self._check,
            "submit": self._submit,
            "wait": self._wait,
            "show": self.show,
            "note": self.note,
            "manage": self._manage,
        }

    def run(self) -> int:
        """Return the newest run; the first one begins here, because agents ask for the context first."""
        history = self.context.history
        return lookup.newest_run(history) if history.runs else enter_run(self.context)

    def show_context(self, given: Arguments) -> Reply:
        reply = super().show_context(given)
        self._take_directive(reply["run"])
        return reply

    def _try(self, given: Arguments) -> Reply:
        return self._hand_over(self._own_node(given["id"]), TicketMode.TRY, given, given["command"])

    def _check(self, given: Arguments) -> Reply:
        node = self._own_node(given["id"])
        if node.draft:
            sealable_files(self.context, node, lambda _: None)  # raises where submit would
        return self._hand_over(node, TicketMode.CHECK, given)

    def _submit(self, given: Arguments) -> Reply:
        node, mode = self._own_node(given["id"]), TicketMode(given.get("mode", TicketMode.ATTEMPT))
        self._require_own_edits(self.context, node)
        if "patch" in given:
            if not node.draft:
                raise Misuse(f"{node.name} is no draft any more: a patch changes drafts alone")
            apply_patch(self.context, node, given["patch"])
        if node.verdict:
            reply = self._decided(node)
            return reply | {"text": f"Nothing was measured, for it is decided: {reply['text']}"}
        return self._hand_over(node, mode, given)

    def _wait(self, given: Arguments) -> Reply:
        name = given["id"]
        if name.startswith("t"):
            return self._await(name, given)
        end, recorder = time.monotonic() + _seconds(given), self.context.recorder
        while not (node := self.node(name)).verdict:
            if ticket := attempt_of(recorder.history, node):
                return self._await(ticket, given)
            reply = self.undecided_reply(node)
            if time.monotonic() >= end:
                return reply
            time.sleep(_LONGEST_PAUSE)
            recorder.refresh()
        return self._decided(node)

    def _manage(self, given: Arguments) -> Reply:
        """Do what `action` says. Raises Misuse where it is not permitted."""
        action, name, context = AgentRight(given["action"]), given["id"], self.context
        permitted = context.task.agents.may
        if action not in permitted:
            named = ", ".join(permitted) or "nothing of this kind"
            raise Misuse(f"agents may not {action} here: they may {named} (`[agents] may` in loopty.toml)")
        context.require_trust()  # the file may be a clone's: its rights count after the user's yes
        why = f"{self.client}: {given.get('why', '')}".rstrip(": ")
        if action is AgentRight.ABORT and name.startswith("t"):
            return {"text": abort_ticket(context, name, why), "id": name}
        node = self.node(name)
        if action is AgentRight.ABORT:
            return {"text": abort_node(context, node, why), "id": name}
        if action is AgentRight.REMEASURE:
            return self._hand_over(node, TicketMode.REMEASURE, {})
        if action is AgentRight.GATE:
            gate = {"name": given.get("name", ""), "command": given.get("command", "")}
            if not all(gate.values()):
                raise Misuse("a gate needs a name and a command")
            return self._hand_over(node, TicketMode.GATE, {}, json.dumps(gate))
        change = (discard if action is AgentRight.DISCARD else invalidate)(context, node.id, why)
        words = context.history.name
        withdrawn, reopened = (
            ", ".join(map(words, nodes)) or "none" for nodes in (change.withdrawn, change.reopened)
        )
        best = words(change.best) if change.best else "none"
        return {"text": f"Withdrawn: {withdrawn}. Unjudged again: {reopened}. Best: {best}.", "best": change.best}

    def _own_node(self, name: str) -> Node:
        """Return the node, if it is this client's, a person's, or left by its client."""
        node = self.context.history[self.find(name)]
        claim = Claims.of(self.context.history.runs[node.id.run]).by_node.get(node.id)
        if node.draft and claim and claim.author != self.client and claim.is_fresh(time.time()):
            raise Misuse(f"{node.name} is the draft of {claim.author}: open one of your own")
        return node

    def _hand_over(self, node: Node, mode: TicketMode, given: Arguments, command: str = "") -> Reply:
        self.context.require_trust()
        values = given.get("params", {})
        return self._await(open_ticket(self.context, node, mode, self.client, command, values), given)

    def _await(self, name: str, given: Arguments) -> Reply:
        """Return the result of a ticket, or how far it is when the time is up."""
        run, number = ticket_parts(name)
        recorder: Recorder = self.context.recorder
        if run not in recorder.refresh().runs or number > Tickets.of(recorder.history.runs[run]).newest:
            raise Misuse(f"there is no ticket {name}")
        seconds = _seconds(given)
        end, pause, worker = time.monotonic() + seconds, _SHORTEST_PAUSE, TicketWorker(self.context)
        self._answer_after(seconds, name)
        while ticket := Tickets.of(recorder.refresh().runs[run]).open.get(str(number)):
            if worker.work(lambda: self._reply_if_ended(run, number)):
                continue
            if time.monotonic() >= end:
                return self._progress(run, number, ticket)
            time.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_PAUSE)
        return self._ended or self._result(run, number)

    def _answer_after(self, seconds: float, name: str) -> None:
        """Answer the client when the time is up, in the middle of the work; so this looks at nothing."""
        text = f"{name} still running after {seconds:.0f} s. Call wait with id {name}."

        def answer(_number: int, _frame: object) -> None:
            self._reply({"text": text, "ticket": name, "state": "running"})

        signal.signal(signal.SIGALRM, answer)
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)

    def _reply_if_ended(self, run: int, number: int) -> None:
        """Answer as soon as this ticket has ended: others may keep this process busy."""
        if str(number) not in Tickets.of(self.context.recorder.refresh().runs[run]).open:
            self._ended = self._result(run, number)
            self._reply(self._ended)

    def _progress(self, run: int, number: int, ticket: OpenTicket) -> Reply:
        history = self.context.history
        node = history[ticket.node]
        before = list(Tickets.of(history.runs[run]).open).index(str(number))
        waits = f"{before} tickets before it" if before else "next in line, or waiting for a slot"
        how_far = self.measured(node) or waits
        age = max(time.time() - ticket.since, 0.0)
        name = ticket_name(run, number)
        text = f"{name} still running: {ticket.mode} of {node.name}, {age:.0f} s, {how_far}. "
        text += f"Call wait with id {name}."
        if ticket.mode is TicketMode.TRY:
            text += f"\n{self._log(run, number)}"
        return {"text": text, "ticket": name, "state": "running", "id": node.id, "seconds": round(age, 1)}

    def _result(self, run: int, number: int) -> Reply:
        result = TicketFiles(self.context.state).read(run, number)
        name, node = ticket_name(run, number), self.context.history[result.node]
        if result.mode is TicketMode.ATTEMPT and node.verdict and not result.fault:
            return self._decided(node) | {"ticket": name}
        reply = {"ticket": name, "state": "failed" if result.fault else "done", "id": node.id}
        return reply | {"text": self._result_text(run, number, result, node)} | _figures(result)

    def _result_text(self, run: int, number: int, result: TicketResult, node: Node) -> str:
        subject = f"{ticket_name(run, number)}, {result.mode} of {node.name}"
        if result.fault:
            return f"{subject}: not done: {result.fault}"
        if result.mode is TicketMode.TRY:
            end = result.problem or f"exit code {result.code}"
            counts = ""
            if runs_benchmark(self.context, node, result.command):
                left = measurements_left(self.context, self.context.recorder.refresh(), run)
                counts = f" It ran the benchmark, which counts: {left} more such tries."
            return f"{subject}: {end}, {result.seconds:.1f} s.{counts}\n{self._log(run, number)}"
        if result.problem:
            return f"{subject}: {result.problem}.{error_excerpt(result.lines, _LINE_WORDS)}"
        if result.mode is TicketMode.CHECK:
            return f"{subject}: it may be submitted; every gate passes ({result.seconds:.1f} s)."
        metrics = ", ".join(f"{metric} {figure(value)}" for metric, value in list(result.metrics.items())[:6])
        if metrics:
            return f"{subject}: {metrics} in one measurement of {result.seconds:.1f} s; no attempt charged."
        return f"{subject}: {'; '.join(result.lines[:_MOST_NAMED]) or 'nothing changed'}"

    def _log(self, run: int, number: int) -> str:
        try:
            raw = TicketFiles(self.context.state).log(run, number).read(_LOG_CHARS * 2, tail=True)
        except FileNotFoundError:
            return ""
        return fence_text("the end of its output", raw.decode(errors="replace")[-_LOG_CHARS:], _LOG_CHARS)

    def _decided(self, node: Node) -> Reply:
        return self.verdict_reply(node, self._take_directive(node.id.run))

    def _take_directive(self, run: int) -> str:
        """Return the directive that this client has not been shown yet; from now on it has."""
        recorder: Recorder = self.context.recorder
        text = unseen_directive(recorder.history.runs[run], self.client, recorder.history.name)
        if text:
            event = DirectiveSeen(run, self.client, directive_digest(text))
            recorder.record(lambda _: [event])
        return text


def _seconds(given: Arguments) -> float:
    return float(given.get("wait", DEFAULT_WAIT_SECONDS))


def _figures(result: TicketResult) -> Reply:
    figures: dict[str, Any] = {"problem": result.problem} if result.problem else {}
    if result.metrics:
        figures["metrics"] = dict(list(result.metrics.items())[:20])
    return figures | ({"code": result.code} if result.mode is TicketMode.TRY else {})
