"""The tools of a coding agent that loopty has started, at a socket inside its sandbox.

The measurement is a ticket: it is charged before it runs, and one that a killed process leaves open is taken by
the next worker, as every ticket is.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

from loopty.domain.errors import LooptyError, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Proposal
from loopty.domain.space import Value
from loopty.domain.trial import Ending, Pool
from loopty.engine.budget import trial_refusal
from loopty.engine.protocols import Trial
from loopty.evaluators.benchmark_runner import TreeCommand
from loopty.features.agents.records import SessionFolder
from loopty.features.agents.trees import AgentTrees
from loopty.kit.foreign_text import fence_text
from loopty.kit.records import replace
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.tickets import TicketMode, TicketOpened, Tickets
from loopty.session.by_hand import check_trial
from loopty.session.context import CampaignContext
from loopty.session.drafts import with_files
from loopty.session.stoppable import never_prune
from loopty.session.ticket_work import lock_ticket
from loopty.session.tickets import (
    TicketFiles,
    end_ticket,
    measurements_left,
    point_of,
    require_limit,
    require_measurement,
    require_slice,
    runs_benchmark,
)
from loopty.show.figures import figure, value_text
from loopty.tools.desk import Answer, Call, Desk, Reply, encode_reply
from loopty.tools.table import DEFAULT_WAIT_SECONDS, LARGEST_CALL, TOOLS, Arguments

_MOST_METRICS = 6
_LINE_CHARS = 2_000


async def tune_session(
    context: CampaignContext,
    unsafe: bool,
    node: Node,
    client: str,
    values: Mapping[str, Value | str],
    stop: asyncio.Event,
) -> dict[str, Any]:
    """Measure the agent's files, as a node that is not recorded, with these values on the slice of `[tune]`."""
    require_slice(context)
    node = replace(node, params=point_of(context.task.space, node, values))
    trial = replace(check_trial(context, node), slice=context.task.tune.slice)
    files, run, fault = TicketFiles(context.state), node.id.run, "its session ended"
    with contextlib.ExitStack() as held:
        number = _open_ticket(context, files, node, client, held, TicketMode.TUNE)
        try:
            outcome = await context.executor(unsafe, run).execute(trial, never_prune, stop)
            fault = outcome.reason if outcome.ending is Ending.CANCELLED else ""
        finally:
            end_ticket(context, run, number, fault)
            files.lock(run, number).remove()
    point = ", ".join(f"{name} = {value_text(value)}" for name, value in node.params.items()) or "no parameters"
    if not outcome.is_finished:
        lines = fence_text("what it printed", "\n".join(outcome.error_lines), _LINE_CHARS)
        return {"text": f"{outcome.reason} ({point})\n{lines}", "problem": outcome.reason, "state": "done"}
    metrics = dict(list(outcome.metrics.items())[:_MOST_METRICS])
    shown = ", ".join(f"{name} {figure(value)}" for name, value in metrics.items())
    text = f"{shown} on the slice with {point}; no attempt charged, and this score is ranked nowhere"
    return {"text": text, "metrics": metrics, "params": dict(node.params), "state": "done"}


def _open_ticket(
    context: CampaignContext,
    files: TicketFiles,
    node: Node,
    client: str,
    held: contextlib.ExitStack,
    mode: TicketMode,
) -> int:
    """Charge the measurement. The ticket is locked before anybody can see it, so no worker takes it."""
    run, newest = node.id.run, 0

    def decide(history: History) -> Iterator[Event]:
        nonlocal newest
        if mode is TicketMode.TUNE:
            require_limit(trial_refusal(history.runs[run], context.task.pools, Pool.TUNE))
        else:
            require_measurement(context, history, run)
        newest = Tickets.of(history.runs[run]).newest + 1
        held.enter_context(lock_ticket(files.lock(run, newest)))
        measured = node.commit, node.tree
        yield TicketOpened(run, newest, node.id, mode, client, *measured, params=node.params, is_charged=True)

    context.recorder.record(decide)
    return newest


_OWN = "draft"
"""The id of the agent's own tree."""
_POLL_SECONDS = 0.25
_MOST_JOBS = 4
_MOST_NOTES = 50
_LOG_CHARS = 6_000
_MOST_NAMED = 8


class SessionTools(Desk):
    """The tools of one session.

    They are about the agent's own tree alone: it can try and check what it has edited, read about the search, and
    leave notes. It may measure its tree on the slice of `[tune]`. It has no other draft, submits no attempt (its
    edits are taken when it ends), and never sees the ledger.
    """

    noted = "Noted: other agents see it in their prompts."

    def __init__(
        self,
        context: CampaignContext,
        unsafe: bool,
        trees: AgentTrees,
        place: SessionFolder,
        parent: Node,
        name: str,
    ) -> None:
        """`name` is the author of the notes."""
        super().__init__(context.state.top, name)
        self.context, self._unsafe = context, unsafe
        self._trees, self._place, self._parent = trees, place, parent
        self._jobs: dict[str, asyncio.Task[Reply]] = {}
        self._stop = asyncio.Event()
        self._calls = self._notes = 0

    def is_busy(self) -> bool:
        """Say whether the agent waits for an answer: it is not stalled then."""
        return self._calls > 0

    @contextlib.asynccontextmanager
    async def serve(self, listener: socket.socket) -> AsyncIterator[None]:
        """Answer calls, one for each connection, as long as the block runs."""
        server = await asyncio.start_unix_server(self._answer_connection, sock=listener, limit=LARGEST_CALL)
        try:
            yield
        finally:
            server.close()
            self._stop.set()
            for job in self._jobs.values():
                with contextlib.suppress(Exception):
                    await job

    async def _answer_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._calls += 1
        try:
            writer.write(encode_reply(await self._reply_to(await reader.readline())))
            await writer.drain()
        except (OSError, ValueError):  # the agent has gone, or its call is too long
            pass
        finally:
            self._calls -= 1
            writer.close()

    async def _reply_to(self, raw: bytes) -> Reply:
        try:
            call = Call.read(raw)
            tool, given = call.tool, call.arguments
            if tool not in self.tools or not isinstance(given, dict):
                raise Misuse(f"the tools here are {', '.join(self.tools)}; your edits are taken when you end")
            if "id" in TOOLS[tool].needs and tool not in ("show", "wait") and given.setdefault("id", _OWN) != _OWN:
                raise Misuse("you have one draft, the current directory: leave id out")
            reply = self.answer(tool, given)
            return reply if isinstance(reply, dict) else await reply
        except LooptyError as error:
            return {"error": str(error)}

    @property
    def tools(self) -> Mapping[str, Callable[[Arguments], Answer]]:
        return {
            "context": self.show_context,
            "try": lambda given: self._start(self._try(given["command"]), given),
            "check": lambda given: self._start(self._check(), given),
            "submit": self._submit,
            "wait": self._wait,
            "show": self.show,
            "note": self.note,
        }

    def run(self) -> int:
        return self._parent.id.run

    def home(self) -> NodeId:
        return self._parent.id

    def note(self, given: Arguments) -> Reply:
        if self._notes >= _MOST_NOTES:
            raise Misuse(f"you have left {_MOST_NOTES} notes already")
        reply = super().note(given)
        self._notes += 1
        return reply

    def node(self, name: str) -> Node:
        """Find a node of this run that is nobody's draft."""
        node = super().node(name)
        if node.id.run != self._parent.id.run or node.draft:
            raise Misuse(f"{name[:40]!r} is no finished node of this run")
        return node

    async def _start(self, work: Awaitable[Reply], given: Arguments) -> Reply:
        if sum(not job.done() for job in self._jobs.values()) >= _MOST_JOBS:
            asyncio.ensure_future(work).cancel()
            raise Misuse(f"{_MOST_JOBS} of your commands run already: wait for one of them")
        name = f"k{len(self._jobs) + 1}"
        self._jobs[name] = asyncio.ensure_future(work)
        return await self._wait({**given, "id": name})

    async def _wait(self, given: Arguments) -> Reply:
        name, seconds = given["id"], given.get("wait", DEFAULT_WAIT_SECONDS)
        if name not in self._jobs:
            return await self._wait_for_verdict(name, seconds)
        done, _ = await asyncio.wait([self._jobs[name]], timeout=seconds)
        if done:
            return self._jobs[name].result()
        text = f"{name} still running. Call wait with id {name}."
        return {"text": text, "ticket": name, "state": "running"}

    async def _wait_for_verdict(self, name: str, seconds: float) -> Reply:
        if name[:1] in "kt":
            raise Misuse(f"there is no ticket {name[:40]!r}: try and check give one; an id is a node's")
        end = time.monotonic() + seconds
        while not (node := self.node(name)).verdict:
            reply = self.undecided_reply(node)
            if time.monotonic() >= end:
                return reply
            await asyncio.sleep(_POLL_SECONDS)
        return self.verdict_reply(node)

    async def _try(self, command: str) -> Reply:
        context, printed = self.context, list[str]()

        def keep(text: str) -> None:
            printed.append(text)
            if len(printed) > 1 and sum(map(len, printed[1:])) > _LOG_CHARS:
                del printed[0]

        trial = await self._trial()
        is_charged = runs_benchmark(context, self._parent, command)
        run_in_tree = context.run_in_tree(self._unsafe, with_programs=is_charged)
        with contextlib.ExitStack() as held:
            if is_charged:
                files, run = TicketFiles(context.state), trial.node.id.run
                number = _open_ticket(context, files, trial.node, self.client, held, TicketMode.TRY)
                held.callback(files.lock(run, number).remove)
                held.callback(end_ticket, context, run, number)
            async with context.hold_place(self._stop) as refusal:
                if refusal:
                    raise Misuse(refusal)
                end = await run_in_tree(trial, TreeCommand(("/bin/sh", "-c", command), keep, keep), self._stop)
        text = fence_text("the end of its output", "".join(printed)[-_LOG_CHARS:], _LOG_CHARS)
        if is_charged:
            left = measurements_left(context, context.recorder.refresh(), trial.node.id.run)
            text = f"It ran the benchmark, which counts: {left} more such tries.\n{text}"
        return {"text": f"{end.stopped or f'exit code {end.code}'}\n{text}", "code": end.code, "state": "done"}

    async def _check(self) -> Reply:
        context, run_gates = self.context, self.context.run_gates(self._unsafe)
        trial = await self._trial()
        async with context.hold_place(self._stop) as refusal:
            if refusal:
                raise Misuse(refusal)
            results = await run_gates(trial, self._stop)
        failed = next((result for result in results if result.refusal), None)
        if failed is None:
            return {"text": "Your change may be taken as it is; every gate passes.", "state": "done"}
        text = fence_text("what the gate printed", "\n".join(failed.printed.lines), _LOG_CHARS)
        return {"text": f"{failed.refusal}\n{text}", "problem": failed.refusal, "state": "done"}

    async def _submit(self, given: Arguments) -> Reply:
        if given.get("mode") != TicketMode.TUNE or "patch" in given:
            raise Misuse("your edits are taken when you end: submit takes mode=tune here, and params")
        return await self._start(self._tune(given.get("params", {})), given)

    async def _tune(self, values: Mapping[str, Any]) -> Reply:
        node = (await self._trial()).node
        return await tune_session(self.context, self._unsafe, node, self.client, values, self._stop)

    async def _trial(self) -> Trial:
        """Make a trial of the tree as it is now. Raises Misuse if its edits would not be taken."""
        harvest = await asyncio.to_thread(self._trees.harvest, self._place.tree, self._place.layout)
        if harvest.fault:
            raise Misuse(f"your files cannot be taken: {harvest.fault}")
        if harvest.left_out and not harvest.edits:
            names = ", ".join(harvest.left_out[:_MOST_NAMED])
            raise Misuse(f"you changed only {names}, which you may not change")
        files, parent = self.context.files, self._parent
        if reason := files.refusal(parent, Proposal(self.client, parent.id, "", edits=harvest.edits)):
            raise Misuse(f"your change {reason}")
        committed = await asyncio.to_thread(files.commit, parent, harvest.edits, "a check of an agent's work")
        return check_trial(self.context, with_files(parent, committed))
