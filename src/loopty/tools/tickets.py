"""The tools `try`, `check`, `submit` and `wait`: work is handed over as a ticket, and asked for."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from loopty.campaign.campaign import Campaign
from loopty.domain.errors import Misuse
from loopty.domain.trial import Pool
from loopty.features.agents.hosts.hooks import require_subagent_edits
from loopty.git.objects import REGULAR_FILES
from loopty.kit.foreign_text import fence_text
from loopty.record.directives import DirectiveSeen, directive_digest, unseen_directive
from loopty.record.node_record import Node
from loopty.record.recorder import Recorder
from loopty.record.tickets import Claims, OpenTicket, TicketMode, Tickets, ticket_name, ticket_parts
from loopty.record.trials import Trials
from loopty.record.verdicts import Incumbents
from loopty.session.context import CampaignContext
from loopty.session.drafts import node_as_edited, sealable_files
from loopty.session.ticket_work import TicketWorker
from loopty.session.tickets import TicketFiles, TicketResult, attempt_of, open_ticket
from loopty.show.figures import figure
from loopty.show.node import detail
from loopty.show.ticket_text import attempt_text, error_excerpt

LARGEST_PATCH = 256 << 10
_MOST_FILES = 200


def apply_patch(context: CampaignContext, node: Node, patch: str) -> list[str]:
    """Write what a unified diff changes into the draft's directory, and return the paths. Raises Misuse."""
    raw = patch.encode()
    if len(raw) > LARGEST_PATCH:
        raise Misuse(f"the patch has {len(raw):,} bytes, more than {LARGEST_PATCH:,}: send a smaller one")
    if "GIT binary patch" in patch:
        raise Misuse("the patch is binary: only text can be sent")
    raw = raw if raw.endswith(b"\n") else raw + b"\n"
    patches, before = context.repository.patches, node_as_edited(context, node)
    if reason := context.files.path_refusal(patches.paths_in(raw) or ()):
        raise Misuse(f"the patch {reason}")
    writable = context.files.writable_files(before.commit)
    trees = patches.apply_to_files(context.repository.entries(before.commit, writable), raw)
    if trees is None:
        raise Misuse(
            f"the patch does not apply to the writable files of {node.name} as its draft is now: make it again "
            "from these; it may change, copy and rename no others"
        )
    changes = context.repository.tree_changes(*trees)
    if not changes:
        raise Misuse("the patch changes nothing")
    if len(changes) > _MOST_FILES:
        raise Misuse(f"the patch changes {len(changes)} files, more than {_MOST_FILES}")
    paths = [change.path for change in changes]
    if reason := context.files.path_refusal(paths):
        raise Misuse(f"the patch {reason}")
    odd = [change.path for change in changes if change.after and change.after.mode not in REGULAR_FILES]
    if odd:
        raise Misuse(f"the patch makes {odd[0]} something other than a regular file")
    folder = context.state.draft_folder(node.id)
    for change in changes:
        *above, name = PurePosixPath(change.path).parts
        place = folder.below(*above)
        if change.after is None:
            place.remove(name)
        else:
            place.file(name).write(context.repository.blob(change.after.blob))
    return paths


_DEFAULT_WAIT_SECONDS = 20
_GRACE_SECONDS = 0.2
"""A process that does not work itself answers with more detail, and then in time."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
_LOG_CHARS = 6_000
_LINE_WORDS = 60
_MOST_NAMED = 12


Reply = Callable[[Mapping[str, Any]], None]
"""Answers a client, once."""


class TicketTools:
    """The tools of one client."""

    def __init__(self, campaign: Campaign, client: str, reply: Reply) -> None:
        """`reply` answers the client; what is sent after its first call is dropped."""
        self._campaign, self._client, self._reply = campaign, client, reply
        self._ended: dict[str, Any] | None = None
        """The result that was sent when the ticket had ended."""

    def try_command(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self._hand_over(self._own_node(arguments["id"]), TicketMode.TRY, arguments, arguments["command"])

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        node = self._own_node(arguments["id"])
        if node.draft:
            sealable_files(self._context, node, lambda _: None)  # raises where submit would
        return self._hand_over(node, TicketMode.CHECK, arguments)

    def submit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        node, mode = self._own_node(arguments["id"]), TicketMode(arguments.get("mode", TicketMode.ATTEMPT))
        require_subagent_edits(self._context, node)
        if "patch" in arguments:
            if not node.draft:
                raise Misuse(f"{node.name} is no draft any more: a patch changes drafts alone")
            apply_patch(self._context, node, arguments["patch"])
        if node.verdict:
            return self._verdict_reply(node)
        return self._hand_over(node, mode, arguments)

    def manage(self, name: str, mode: TicketMode, command: str = "") -> dict[str, Any]:
        """Hand over work that is not about a draft of this client."""
        return self._hand_over(self._campaign.node(name), mode, {}, command)

    def wait(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = arguments["ticket"]
        if not name.startswith("t"):
            node = self._campaign.node(name)
            if node.verdict:
                return self._verdict_reply(node)
            found = attempt_of(self._context.history, node)
            if found is None:
                raise Misuse(f"{node.name} has no open ticket: submit it")
            name = found
        return self._await(name, arguments)

    @property
    def _context(self) -> CampaignContext:
        return self._campaign.context

    def _own_node(self, name: str) -> Node:
        """Return the node, if it is this client's, a person's, or left by its client."""
        node = self._context.history[self._campaign.find_node(name)]
        claim = Claims.of(self._context.history.runs[node.id.run]).by_node.get(node.id)
        if node.draft and claim and claim.author != self._client and claim.is_fresh(time.time()):
            raise Misuse(f"{node.name} is the draft of {claim.author}: open one of your own")
        return node

    def _hand_over(
        self, node: Node, mode: TicketMode, arguments: Mapping[str, Any], command: str = ""
    ) -> dict[str, Any]:
        self._context.require_trust()
        values = arguments.get("params", {})
        return self._await(open_ticket(self._context, node, mode, self._client, command, values), arguments)

    def _await(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a ticket, or how far it is when the time is up."""
        run, number = ticket_parts(name)
        recorder: Recorder = self._context.recorder
        if run not in recorder.refresh().runs or number > Tickets.of(recorder.history.runs[run]).newest:
            raise Misuse(f"there is no ticket {name}")
        seconds = arguments.get("wait", _DEFAULT_WAIT_SECONDS)
        end, pause, worker = time.monotonic() + seconds, _SHORTEST_PAUSE, TicketWorker(self._context)
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
        text = f"{name} still running after {seconds:.0f} s. Call wait again."

        def answer(_number: int, _frame: object) -> None:
            self._reply({"text": text, "ticket": name, "state": "running"})

        signal.signal(signal.SIGALRM, answer)
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)

    def _reply_if_ended(self, run: int, number: int) -> None:
        """Answer as soon as this ticket has ended: others may keep this process busy."""
        if str(number) not in Tickets.of(self._context.recorder.refresh().runs[run]).open:
            self._ended = self._result(run, number)
            self._reply(self._ended)

    def _progress(self, run: int, number: int, ticket: OpenTicket) -> dict[str, Any]:
        history = self._context.history
        node, found = history[ticket.node], history.runs[run]
        before = list(Tickets.of(found).open).index(str(number))
        trials = [row for name, row in Trials.of(found).running.items() if (row.subject or name) == node.id]
        if trials or node.running:
            pairs = len(node.pairing.pairs_so_far) if node.pairing else 0
            how_far = f"measured now, {pairs} pairs so far" if pairs else "measured now"
        else:
            how_far = f"{before} tickets before it" if before else "next in line, or waiting for a slot"
        age = max(time.time() - ticket.since, 0.0)
        name = ticket_name(run, number)
        text = f"{name} still running: {ticket.mode} of {node.name}, {age:.0f} s, {how_far}. Call wait again."
        if ticket.mode is TicketMode.TRY:
            text += f"\n{self._log(run, number)}"
        return {"text": text, "ticket": name, "state": "running", "id": node.id, "seconds": round(age, 1)}

    def _result(self, run: int, number: int) -> dict[str, Any]:
        result = TicketFiles(self._context.state).read(run, number)
        name, node = ticket_name(run, number), self._context.history[result.node]
        if result.mode is TicketMode.ATTEMPT and node.verdict and not result.fault:
            return self._verdict_reply(node) | {"ticket": name}
        reply = {"ticket": name, "state": "failed" if result.fault else "done", "id": node.id}
        return reply | {"text": self._result_text(run, number, result, node)} | _figures(result)

    def _result_text(self, run: int, number: int, result: TicketResult, node: Node) -> str:
        subject = f"{ticket_name(run, number)}, {result.mode} of {node.name}"
        if result.fault:
            return f"{subject}: not done: {result.fault}"
        if result.mode is TicketMode.TRY:
            end = result.problem or f"exit code {result.code}"
            return f"{subject}: {end}, {result.seconds:.1f} s.\n{self._log(run, number)}"
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
            raw = TicketFiles(self._context.state).log(run, number).read(_LOG_CHARS * 2, tail=True)
        except FileNotFoundError:
            return ""
        return fence_text("the end of its output", raw.decode(errors="replace")[-_LOG_CHARS:], _LOG_CHARS)

    def _verdict_reply(self, node: Node) -> dict[str, Any]:
        context, run = self._context, self._context.history.runs[node.id.run]
        found = detail(context.history, node.id)
        best = Incumbents.of(run, Pool.ATTEMPT).best
        named = context.history.name(best) if best and best != node.id else "this one"
        lines = node.outcome.error_lines if node.outcome else ()
        directive = self.take_directive(node.id.run)
        left = self._campaign.status(node.id.run).left
        reply = {"text": attempt_text(found, named if best else "", lines, left, directive), "state": "done"}
        score = context.history.score(node)
        return reply | {"id": node.id, "verdict": str(node.verdict), "score": score, "best": best}

    def take_directive(self, run: int) -> str:
        """Return the directive that this client has not been shown yet; from now on it has."""
        recorder: Recorder = self._context.recorder
        text = unseen_directive(recorder.history.runs[run], self._client, recorder.history.name)
        if text:
            event = DirectiveSeen(run, self._client, directive_digest(text))
            recorder.record(lambda _: [event])
        return text


def _figures(result: TicketResult) -> dict[str, Any]:
    figures: dict[str, Any] = {"problem": result.problem} if result.problem else {}
    if result.metrics:
        figures["metrics"] = dict(list(result.metrics.items())[:20])
    return figures | ({"code": result.code} if result.mode is TicketMode.TRY else {})
