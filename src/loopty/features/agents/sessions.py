"""Sessions of a coding agent on this machine: a tree of its own, a call in the ledger, and its edits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import TYPE_CHECKING

from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse
from loopty.domain.launch import Sandbox
from loopty.domain.model import Outage, Usage
from loopty.domain.task import SandboxSpec, Task
from loopty.engine.protocols import Ask
from loopty.executors.process_locks import ProcessLocks
from loopty.features.agents.launcher import MODEL_ADDRESS, AgentLauncher, read_output, require_program
from loopty.features.agents.records import (
    AgentBooks,
    AgentRecord,
    PartCost,
    SessionFolder,
    SessionFolders,
    usage_since,
)
from loopty.features.agents.session_tools import SessionTools
from loopty.features.agents.start import AgentLogin, ServedModel, ServedTools, SessionStart, make_job
from loopty.features.agents.trees import AgentTrees
from loopty.git.repository import Repository
from loopty.kit import codec
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFile
from loopty.kit.sockets import listen
from loopty.models.meter import CANCELLED
from loopty.proposers.agent.driver import AgentEndpoint, load_driver
from loopty.proposers.agent.stalls import Stall, StallKind
from loopty.proposers.agent.stream import AgentEnd, AgentStream
from loopty.proposers.agent.work import AgentChoice, AgentWork, SessionEnd, end_of_crash, end_of_stall
from loopty.record.calls import STALLED, Spend
from loopty.record.node_record import Node
from loopty.record.recorder import Recorder
from loopty.sandboxes.installations import repository_environments
from loopty.session.context import CampaignContext
from loopty.session.models import RoleModels
from loopty.taskfile.model_tables import agent_tables
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.models.trial_access import ServeTrial, TrialAccess


MakeTools = Callable[[SessionFolder, Node], SessionTools]
"""The tools of an agent that changes the files of a node, in this folder."""
_BACKLOG = 128
_INTERRUPTED = "its process ended before it did"


class _Part(Record):
    """How one start of an agent ended."""

    end: SessionEnd
    stream: AgentStream
    calls: tuple[str, ...]
    record: AgentRecord
    resumes: bool
    """Whether the session goes on after its stall."""


class SandboxedSessions:
    """Runs sessions of one agent in the sandbox."""

    def __init__(
        self,
        launcher: AgentLauncher,
        login: AgentLogin,
        trees: AgentTrees,
        folders: SessionFolders,
        books: AgentBooks,
        owner: str,
        is_alive: Callable[[str], bool],
        serve: ServeTrial | None,
        make_tools: MakeTools,
    ) -> None:
        """`serve` serves the evolver's model; None: the agent uses its own login and the network."""
        self._make_tools = make_tools
        self._launcher = launcher
        self._driver = launcher.driver
        self._name = launcher.choice.configuration.name
        self._login = login
        self._trees = trees
        self._folders = folders
        self._books = books
        self._owner = owner
        self._is_alive = is_alive
        self._serve = serve
        self._unrecorded: list[tuple[SessionFolder, str]] = []
        """Sessions whose proposals may not be in the ledger yet, with their calls."""
        for key in login.variables.values():
            books.archive.hide(key)

    async def work_left_behind(self, ask: Ask, others: Collection[str] = ()) -> AgentWork | None:
        """Return the work of a session that an earlier process left, resumed first if it was interrupted."""
        unread = Spend.of(ask.history.runs[ask.run]).unread
        for place, call in [*self._unrecorded]:
            if call not in unread:
                place.remove()
                self._unrecorded.remove((place, call))
        for abandoned, record in self._folders.sessions_of_dead(self._is_alive):
            if record.configuration != self._name and record.configuration in others:
                continue
            taken = self._folders.take_over(abandoned, self._owner)
            if taken is None:
                continue
            ours = self._driver.name, self._name, ask.run, ask.pool
            is_ours = (record.agent, record.configuration, record.run, record.pool) == ours
            is_known = is_ours and record.node in ask.history.ids
            if not is_known or (record.has_ended and record.call not in unread):
                taken.remove()
            elif record.call in unread:
                end, text = SessionEnd(AgentEnd.CLEAN), self._books.text_of_call(record.call)
                return await self._take_work(taken, record, end, text, (record.call,))
            else:
                return await self._resume(ask, taken, record)
        return None

    async def work(self, ask: Ask, parent: Node, prompt: str) -> AgentWork:
        """Let the agent change the files of a node. Raises Exhausted when a cap is used up, and Outage."""
        await self._books.purse.wait_for_ledger()
        call = self._books.reserve(ask, parent)
        place = self._folders.add(self._owner)
        record = AgentRecord(
            self._driver.name, ask.run, ask.pool, parent.id, call, prompt, configuration=self._name
        )
        place.save(record)
        start = SessionStart(place, record, parent, ask.root)
        await asyncio.to_thread(self._trees.lay_out, parent, ask.root, place.tree, place.layout)
        return await self._run(ask, start)

    def note_search_stall(self, ask: Ask, stall: Stall) -> None:
        """Record, once, that the configuration's changes do not get on."""
        self._books.note_search_stall(ask, stall)

    async def _resume(self, ask: Ask, place: SessionFolder, record: AgentRecord) -> AgentWork:
        """Go on with an interrupted session, after what it used is in the ledger."""
        stream, parent = AgentStream(self._driver.read_line), ask.history[record.node]
        read_output(place.folder, f"output-{record.part}", stream)
        await self._books.purse.wait_for_ledger()
        if not record.is_booked and self._serve is None:
            lost = self._books.reserve(ask, parent, wants_proposal=False)
            self._books.close_lost(lost, stream.usage, stream.cost_usd, _INTERRUPTED)
        if not place.layout.exists():  # it was interrupted before its tree was there
            place.remove()
            return await self.work(ask, parent, record.prompt)
        return await self._run(ask, self._next_part(ask, place, record, stream))

    def _next_part(self, ask: Ask, place: SessionFolder, record: AgentRecord, stream: AgentStream) -> SessionStart:
        """Continue the session, with the agent's own memory of it if the agent can."""
        parent = ask.history[record.node]
        record = replace(record, call=self._books.reserve(ask, parent), part=record.part + 1, is_booked=False)
        place.save(record)
        session = stream.session if self._driver.can_resume else ""
        before = stream.usage if session and self._driver.counts_all_parts else Usage()
        return SessionStart(place, record, parent, ask.root, session, before)

    async def _run(self, ask: Ask, start: SessionStart) -> AgentWork:
        """Run a session to its end; after its first stall it goes on once, with a hint."""
        while True:
            part = await self._run_part(start)
            if not part.resumes:
                if part.end.stall:
                    self._books.bench_when_pathological(ask.run)
                return await self._take_work(start.place, start.record, part.end, part.stream.text, part.calls)
            start = self._next_part(ask, start.place, part.record, part.stream)

    async def _run_part(self, start: SessionStart) -> _Part:
        place, record, streams = start.place, start.record, list[AgentStream]()
        failure, calls, since = CANCELLED, list[str](), time.monotonic()
        end: SessionEnd | None = None
        access: TrialAccess | None = None
        resumes = False
        try:
            async with self._model_access(start) as model, self._serve_tools(start) as tools:
                access = model.access if model else None
                calls = access.calls if access else calls
                job = make_job(start, self._launcher, self._login, self._trees, model, tools)
                before = {} if model else self._login.credentials()
                try:
                    watch = self._books.cap_watch(start.usage_before)
                    run = await self._launcher.run(job, watch, streams.append)
                finally:
                    self._login.copy_back(place.home, before)
            end = await self._end_of_part(place, run.end, run.stream, access, time.monotonic() - since)
            resumes = end.stall is not None and end.stall.kind.goes_on and not record.stalls
            failure = "" if end.has_work else f"{STALLED}{end.reason}" if end.stall else end.reason or str(end.end)
        finally:
            stream = streams[0] if streams else AgentStream(self._driver.read_line)
            usage = usage_since(stream.usage, start.usage_before)
            tokens = access.tokens if access else usage.tokens
            cost = PartCost(usage, stream.cost_usd, tokens, since)
            await self._books.purse.wait_for_ledger()
            self._books.close_part(record, stream.text, cost, failure, end, resumes)
            after = replace(record, is_booked=True, has_ended=not failure)
            if resumes and end and end.stall:
                used = record.tokens_before + tokens
                after = replace(after, stalls=record.stalls + 1, tokens_before=used, hint=end.stall.hint)
            place.save(after)
        if access and access.exhausted and not end.has_work:  # first: the agent takes it for an outage
            place.remove()
            raise access.exhausted
        if end.end is AgentEnd.UNAVAILABLE:
            place.remove()
            remedy = f"; try `loopty doctor --agent {self._driver.name}`" if self._driver.program else ""
            raise Outage(f"{self._name}: {end.reason}{remedy}")
        return _Part(end, stream, (*calls, record.call), after, resumes)

    async def _end_of_part(
        self,
        place: SessionFolder,
        end: SessionEnd,
        stream: AgentStream,
        access: TrialAccess | None,
        seconds: float,
    ) -> SessionEnd:
        """Find how a part ended, where its model or its process may be to blame."""
        end = _with_model_faults(end, access)
        if not self._launcher.choice.stalls.watch:
            return end
        if end.end is AgentEnd.LIMITED and not await self._has_changed(place):
            return end_of_stall(Stall(StallKind.LIMIT, f"{end.reason}, and it changed nothing", seconds))
        if end.end is AgentEnd.CRASHED:
            has_asked = (access and access.calls) or stream.usage.tokens or stream.tool_calls
            return end_of_crash(end, bool(has_asked) or await self._has_changed(place))
        return end

    async def _has_changed(self, place: SessionFolder) -> bool:
        """Say whether the agent has changed a file, if only one that it may not change."""
        harvest = await asyncio.to_thread(self._trees.harvest, place.tree, place.layout)
        return bool(harvest.edits or harvest.left_out or harvest.fault)

    async def _take_work(
        self, place: SessionFolder, record: AgentRecord, end: SessionEnd, text: str, calls: tuple[str, ...]
    ) -> AgentWork:
        if not end.has_work:
            place.remove()
            return AgentWork(record.node, end, text, {}, calls=calls)
        harvest = await asyncio.to_thread(self._trees.harvest, place.tree, place.layout)
        self._unrecorded.append((place, record.call))
        return AgentWork(
            parent=record.node,
            end=end,
            text=text,
            edits=harvest.edits,
            left_out=harvest.left_out,
            fault=harvest.fault,
            calls=calls,
        )

    @contextlib.asynccontextmanager
    async def _serve_tools(self, start: SessionStart) -> AsyncIterator[ServedTools]:
        """Serve the tools of the session, at a socket of its own."""
        tools = self._make_tools(start.place, start.parent)
        with listen(start.place.folder.below("tools"), socket.SOCK_STREAM, _BACKLOG) as listener:
            async with tools.serve(listener.socket):
                yield ServedTools(listener.path, tools.is_busy)

    @contextlib.asynccontextmanager
    async def _model_access(self, start: SessionStart) -> AsyncIterator[ServedModel | None]:
        """Serve the model to this session, at its own socket; yield None if the agent has its own login."""
        if self._serve is None:
            yield None
            return
        with listen(start.place.folder.below("model"), socket.SOCK_STREAM, _BACKLOG) as listener:
            async with self._serve(start.record.node, listener.socket) as access:
                endpoint = AgentEndpoint(MODEL_ADDRESS, access.key, access.model)
                yield ServedModel(endpoint, listener.path, access)


def _with_model_faults(end: SessionEnd, access: TrialAccess | None) -> SessionEnd:
    """Return the end of a session, where the model that loopty served may be to blame."""
    if access is None or end.has_work:
        return end
    if access.outage is not None and access.exhausted is None:
        return SessionEnd(AgentEnd.UNAVAILABLE, str(access.outage))
    if access.refusal:
        return replace(end, reason=f"{end.reason}; its last request to the model: {access.refusal}")
    return end


class AgentFactory(Record):
    """Makes sessions for one run."""

    sandbox: SandboxSpec
    unsafe: bool
    repository: Repository
    state: StateFolder
    files: NodeFiles
    models: RoleModels
    recorder: Recorder
    owner: str
    context: CampaignContext

    def sessions(self, choice: AgentChoice) -> SandboxedSessions:
        """Make the sessions of this agent, which `require_agents` has found to be usable."""
        driver = load_driver(choice.agent, choice.stream)
        login = AgentLogin(driver, choice, os.environ)
        serve = self.models.serve_agent(choice.configuration.name)
        sandbox, trial_owner = choose_agent_sandbox(self.sandbox, self.unsafe, self.state.probes)
        top = self.repository.top
        found = repository_environments(top, self.repository.working_tree.paths_that_git_ignores())
        environments = tuple(environment.folder for environment in found)
        trees = AgentTrees(self.repository, self.files, trial_owner)

        def make_tools(place: SessionFolder, parent: Node) -> SessionTools:
            return SessionTools(self.context, self.unsafe, trees, place, parent, choice.configuration.name)

        return SandboxedSessions(
            launcher=AgentLauncher(driver, choice, sandbox, trial_owner, top, environments),
            login=login,
            trees=trees,
            folders=SessionFolders(self.state.agents, trial_owner[0] if trial_owner else None),
            books=AgentBooks(choice, self.models.purse, self.models.archive, self.recorder, serve is not None),
            owner=self.owner,
            is_alive=ProcessLocks(self.state.owners).is_alive,
            serve=serve,
            make_tools=make_tools,
        )


def require_agents(task: Task) -> None:
    """Raise Misuse where a coding agent of the task is not installed, or has neither login nor model."""
    for _, options in agent_tables(task.proposer):
        names = ("command", "stream", "login", "variables")
        given = {name: options[name] for name in names if name in options}
        choice = codec.build(AgentChoice, {"agent": options["agent"], **given})
        driver = load_driver(choice.agent, choice.stream)
        require_program(driver)
        if wrong := next((name for name in choice.login if not is_clean_path(name)), None):
            raise Misuse(f"login of [proposer] names {wrong!r}: name files below your home, as .agent/auth.json")
        if not task.roles.evolver.model and not AgentLogin(driver, choice, os.environ).is_there:
            raise Misuse(
                f"{driver.name} has no login here: {driver.login}; or name a model of loopty's, as in "
                '[roles.evolver] model = "…"'
            )


def choose_agent_sandbox(
    spec: SandboxSpec, unsafe: bool, cache: SafeFile | None = None
) -> tuple[Sandbox, tuple[int, int] | None]:
    """Choose the back end, and the uid and gid that own an agent's files when that is not this user."""
    if unsafe:
        from loopty.sandboxes.unsafe import Unsafe

        return Unsafe(), None
    from loopty.kit.process import trial_owner
    from loopty.sandboxes.choice import choose_sandbox

    return choose_sandbox(spec, cache), trial_owner()
