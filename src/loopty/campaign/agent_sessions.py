"""Sessions of a coding agent: a tree of its own, a call in the ledger, and the edits that it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.agents.agent_driver import AgentEndpoint, AgentOrder
from loopty.agents.agent_endings import SessionEnd
from loopty.agents.agent_stream import AgentEnd, AgentStream
from loopty.agents.agent_work import AgentWork
from loopty.campaign.agent_launcher import (
    HOME,
    MODEL_ADDRESS,
    PROMPT_FILE,
    TREE,
    AgentJob,
    AgentLauncher,
    read_output,
)
from loopty.campaign.agent_login import AgentLogin
from loopty.campaign.agent_records import AgentRecord, SessionFolder, SessionFolders
from loopty.domain.errors import Exhausted
from loopty.domain.model import Message, Outage, Prompt, Reply, Role, Speaker, Usage
from loopty.engine.protocols import Ask
from loopty.kit.dataclass import dataclass, replace
from loopty.kit.unix_socket import listen
from loopty.models.archive import Archive
from loopty.models.meter import CANCELLED
from loopty.models.purse import RunPurse
from loopty.record.calls import Spend
from loopty.record.node_record import Node
from loopty.workspaces.agent_trees import AgentTrees

if TYPE_CHECKING:
    from loopty.models.endpoint.trial_access import ServeTrial, TrialAccess

_BACKLOG = 128
_LONGEST_ARGUMENT = 100_000
"""Bytes. The kernel refuses a longer one."""
_LONG_PROMPT = f"Read the file {PROMPT_FILE} as a whole: it is your task. Do what it says."
_CONTINUE = (
    "You were interrupted. Your edits so far are in the current directory. Finish the task under the same rules, "
    "and end with your SUMMARY line."
)
_INTERRUPTED = "its process ended before it did"


@dataclass(frozen=True, slots=True)
class _Start:
    """A session that is about to start, or to go on."""

    place: SessionFolder
    record: AgentRecord
    parent: Node
    root: Node
    session: str = ""
    """The agent's own name of the session to resume."""
    usage_before: Usage = Usage()
    """What earlier parts used, where the agent counts them again."""


class SandboxedSessions:
    """Runs sessions of one agent in the sandbox."""

    def __init__(
        self,
        launcher: AgentLauncher,
        login: AgentLogin,
        trees: AgentTrees,
        folders: SessionFolders,
        purse: RunPurse,
        archive: Archive,
        owner: str,
        is_alive: Callable[[str], bool],
        serve: ServeTrial | None,
    ) -> None:
        """`serve` serves the evolver's model; None: the agent uses its own login and the network."""
        self._launcher = launcher
        self._driver = launcher.driver
        self._login = login
        self._trees = trees
        self._folders = folders
        self._purse = purse
        self._archive = archive
        self._owner = owner
        self._is_alive = is_alive
        self._serve = serve
        self._unrecorded: list[tuple[SessionFolder, str]] = []
        """Sessions whose proposals may not be in the ledger yet, with their calls."""
        for key in login.variables.values():
            archive.hide(key)

    async def work_left_behind(self, ask: Ask) -> AgentWork | None:
        """The work of a session that an earlier process left, resumed first where it was interrupted."""
        unread = Spend.of(ask.history.runs[ask.run]).unread
        for place, call in [*self._unrecorded]:
            if call not in unread:
                place.remove()
                self._unrecorded.remove((place, call))
        for abandoned, record in self._folders.sessions_of_dead(self._is_alive):
            taken = self._folders.take_over(abandoned, self._owner)
            if taken is None:
                continue
            is_ours = (record.agent, record.run, record.pool) == (self._driver.name, ask.run, ask.pool)
            if (
                not is_ours
                or record.node not in ask.history.ids
                or (record.has_ended and record.call not in unread)
            ):
                taken.remove()
            elif record.call in unread:
                end, text = SessionEnd(AgentEnd.CLEAN), self._text_of_call(record.call)
                return await self._take_work(taken, record, end, text, (record.call,))
            else:
                return await self._resume(ask, taken, record)
        return None

    async def work(self, ask: Ask, parent: Node, prompt: str) -> AgentWork:
        """Let the agent change the files of a node. Raises Exhausted when a cap is used up, and Outage."""
        call = self._reserve(ask, parent)
        place = self._folders.add(self._owner)
        record = AgentRecord(self._driver.name, ask.run, ask.pool, parent.id, call, prompt)
        place.save(record)
        start = _Start(place, record, parent, ask.root)
        await asyncio.to_thread(self._trees.lay_out, parent, ask.root, place.tree, place.layout)
        return await self._run(start)

    async def _resume(self, ask: Ask, place: SessionFolder, record: AgentRecord) -> AgentWork:
        """Go on with an interrupted session, after what it used is in the ledger."""
        stream, parent = AgentStream(self._driver.read_line), ask.history[record.node]
        read_output(place.folder, f"output-{record.part}", stream)
        if not record.is_booked and self._serve is None:
            lost = self._reserve(ask, parent, wants_proposal=False)
            self._settle(lost, stream.usage, stream.cost_usd, _INTERRUPTED)
        if not place.layout.exists():  # it was interrupted before its tree was there
            place.remove()
            return await self.work(ask, parent, record.prompt)
        record = replace(record, call=self._reserve(ask, parent), part=record.part + 1, is_booked=False)
        place.save(record)
        session = stream.session if self._driver.can_resume else ""
        before = stream.usage if session and self._driver.counts_all_parts else Usage()
        return await self._run(_Start(place, record, parent, ask.root, session, before))

    def _reserve(self, ask: Ask, parent: Node, wants_proposal: bool = True) -> str:
        """One call for the session: its tokens, if loopty does not serve its model, are known only at its end."""
        remaining = self._purse.remaining(Role.EVOLVER)
        if self._serve is None and wants_proposal and (remaining.tokens <= 0 or remaining.money_usd <= 0):
            raise Exhausted("the caps on the evolver's tokens or money leave nothing for another session")
        pool = ask.pool if wants_proposal else None
        name = self._driver.name
        return self._purse.reserve(Role.EVOLVER, 0, 0.0, None, self._model_name, name, parent.id, pool)

    @property
    def _model_name(self) -> str:
        if self._serve is not None:
            return f"{self._driver.name}:session"
        return f"{self._driver.name}:{self._launcher.choice.model or 'own choice'}"

    def _settle(self, call: str, usage: Usage, cost_usd: float, failure: str) -> None:
        if self._serve is not None:  # each of its calls was paid for on its own
            usage, cost_usd = Usage(), 0.0
        self._purse.settle(call, usage.tokens, cost_usd, usage, failure)

    async def _run(self, start: _Start) -> AgentWork:
        place, record, streams = start.place, start.record, list[AgentStream]()
        failure, calls = CANCELLED, list[str]()
        try:
            async with self._model_access(start) as (endpoint, model_socket, access):
                calls = access.calls if access else calls
                job = self._job(start, endpoint, model_socket)
                before = self._login.credentials() if endpoint is None else {}
                try:
                    run = await self._launcher.run(job, self._cap_watch(start), streams.append)
                finally:
                    self._login.copy_back(place.home, before)
            end = _with_model_faults(run.end, access)
            if end.end is AgentEnd.CRASHED and not calls and not await self._has_begun(place, run.stream):
                # The next start would end in the same way, and the one after it.
                end = SessionEnd(AgentEnd.UNAVAILABLE, end.reason)
            failure = "" if end.has_work else end.reason or str(end.end)
        finally:
            stream = streams[0] if streams else AgentStream(self._driver.read_line)
            usage = _difference(stream.usage, start.usage_before)
            self._keep(record, stream.text, usage, failure)
            self._settle(record.call, usage, stream.cost_usd, failure)
            place.save(replace(record, is_booked=True, has_ended=not failure))
        if access and access.exhausted and not end.has_work:  # first: the agent takes it for an outage
            place.remove()
            raise access.exhausted
        if end.end is AgentEnd.UNAVAILABLE:
            place.remove()
            raise Outage(f"{self._driver.name}: {end.reason}; try `loopty doctor --agent {self._driver.name}`")
        return await self._take_work(place, record, end, stream.text, (*calls, record.call))

    async def _has_begun(self, place: SessionFolder, stream: AgentStream) -> bool:
        """Whether the agent has asked its model or changed a file."""
        harvest = await asyncio.to_thread(self._trees.harvest, place.tree, place.layout)
        return bool(stream.usage.tokens or stream.tool_calls or harvest.edits or harvest.left_out or harvest.fault)

    async def _take_work(
        self, place: SessionFolder, record: AgentRecord, end: SessionEnd, text: str, calls: tuple[str, ...]
    ) -> AgentWork:
        if not end.has_work:
            place.remove()
            return AgentWork(record.node, end, text, {}, calls=calls)
        harvest = await asyncio.to_thread(self._trees.harvest, place.tree, place.layout)
        self._unrecorded.append((place, record.call))
        return AgentWork(record.node, end, text, harvest.edits, harvest.left_out, harvest.fault, calls)

    def _job(self, start: _Start, endpoint: AgentEndpoint | None, model_socket: Path | None) -> AgentJob:
        place, record, choice = start.place, start.record, self._launcher.choice
        prompt = record.prompt if not start.session else _CONTINUE
        if record.part > 1 and not start.session:
            prompt = f"{record.prompt}\n{_CONTINUE}\n"
        if endpoint is None:
            self._login.copy_into(place.home)
        is_long = len(prompt.encode(errors="replace")) > _LONGEST_ARGUMENT
        order = AgentOrder(
            _LONG_PROMPT if is_long else prompt,
            PROMPT_FILE,
            HOME,
            choice.model,
            choice.args,
            endpoint,
            start.session,
            choice.argv if not self._driver.program else (),
            tuple(self._trees.writable_files(start.parent.commit)),
        )
        return AgentJob(
            self._driver.make_command(order),
            prompt,
            self._trees.mounts(start.root, place.tree, TREE),
            place.home,
            place.folder,
            record.part,
            self._login.variables if endpoint is None else {},
            model_socket,
        )

    @contextlib.asynccontextmanager
    async def _model_access(
        self, start: _Start
    ) -> AsyncIterator[tuple[AgentEndpoint | None, Path | None, TrialAccess | None]]:
        """The model that loopty serves, at a socket of this session; nothing where the agent has its own login."""
        if self._serve is None:
            yield None, None, None
            return
        with listen(start.place.folder.below("model"), socket.SOCK_STREAM, _BACKLOG) as listener:
            async with self._serve(start.record.node, listener.socket) as access:
                yield AgentEndpoint(MODEL_ADDRESS, access.key, access.model), listener.path, access

    def _cap_watch(self, start: _Start) -> Callable[[AgentStream], str]:
        """Stops an agent with its own login when its stream says that a cap is reached."""
        remaining = self._purse.remaining(Role.EVOLVER)
        if self._serve is not None or (math.isinf(remaining.tokens) and math.isinf(remaining.money_usd)):
            return lambda _: ""

        def watch(stream: AgentStream) -> str:
            used = _difference(stream.usage, start.usage_before).tokens
            if used > remaining.tokens or stream.cost_usd > remaining.money_usd:
                return "reached the cap on the evolver's tokens or money"
            return ""

        return watch

    def _keep(self, record: AgentRecord, text: str, usage: Usage, failure: str) -> None:
        prompt = Prompt("", (Message(Speaker.ASKER, record.prompt),))
        reply = None if failure else Reply(text, usage)
        self._archive.keep(
            record.call,
            prompt,
            reply,
            failure,
            model=self._model_name,
            role=Role.EVOLVER,
            operator=self._driver.name,
            node=record.node,
        )

    def _text_of_call(self, call: str) -> str:
        record = self._archive.record(call)
        return record.reply.text if record and record.reply else ""


def _with_model_faults(end: SessionEnd, access: TrialAccess | None) -> SessionEnd:
    """The end of a session, where the model that loopty served may be to blame."""
    if access is None or end.has_work:
        return end
    if access.outage is not None and access.exhausted is None:
        return SessionEnd(AgentEnd.UNAVAILABLE, str(access.outage))
    if access.refusal:
        return replace(end, reason=f"{end.reason}; its last request to the model: {access.refusal}")
    return end


def _difference(usage: Usage, before: Usage) -> Usage:
    return Usage(
        max(usage.input_tokens - before.input_tokens, 0),
        max(usage.output_tokens - before.output_tokens, 0),
        max(usage.cached_tokens - before.cached_tokens, 0),
        max(usage.reasoning_tokens - before.reasoning_tokens, 0),
    )
