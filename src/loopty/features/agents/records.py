"""What is kept of a coding agent's sessions: on disk to take them over, in the ledger to count them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator

from loopty.domain.declared_types import cut_words
from loopty.domain.errors import Exhausted, LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Reply, Role, Speaker, Usage
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.kit import codec
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.models.archive import Archive
from loopty.models.purse import RunPurse
from loopty.proposers.agent.stalls import Stall, StallKind
from loopty.proposers.agent.stream import AgentEnd, AgentStream
from loopty.proposers.agent.work import AgentChoice, SessionEnd
from loopty.record.agent_accounts import AgentAccounts, AgentBenched, AgentPartEnded, AgentSearchStalled
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.recorder import Recorder

_RECORD = "session.json"


class AgentRecord(Record):
    """One session."""

    agent: str
    run: int
    pool: Pool
    node: NodeId
    """The node whose files the agent changes."""
    call: str
    """The call of its newest part."""
    prompt: str
    part: int = 1
    """How often the agent was started."""
    is_booked: bool = False
    """Whether the tokens of the newest part are in the ledger."""
    stalls: int = 0
    """How many parts stalled."""
    tokens_before: int = 0
    """What the parts that stalled used."""
    hint: str = ""
    """What the agent should know about its last stall."""
    configuration: str = ""
    """Its name in the task file."""
    has_ended: bool = False


class SessionFolder(Record):
    """The folder of one session."""

    folder: SafeFolder
    trial_user: int | None = None

    @property
    def tree(self) -> SafeFolder:
        return self.folder.below("tree")

    @property
    def home(self) -> SafeFolder:
        return self.folder.below("home").written_by(self.trial_user)

    @property
    def layout(self) -> SafeFile:
        return self.folder.file("layout.json")

    def save(self, record: AgentRecord) -> None:
        """Write the record, as a whole or not at all."""
        self.folder.file(_RECORD).write(json.dumps(codec.plain(record)).encode())

    def load(self) -> AgentRecord | None:
        """Load the record; None if it was never written, or by another version."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError, LooptyError):
            return codec.build(AgentRecord, json.loads(self.folder.file(_RECORD).read()))
        return None

    def remove(self) -> None:
        self.folder.remove_all()


class SessionFolders:
    """The sessions of one repository, one folder each."""

    def __init__(self, folder: SafeFolder, trial_user: int | None) -> None:
        self._folder = folder
        self._trial_user = trial_user

    def add(self, owner: str) -> SessionFolder:
        """Make a new, empty folder of this process."""
        session = self._session(_name(owner))
        session.folder.make()
        with session.home.handle(make=True) as home:
            os.fchmod(home, 0o700)  # a login is copied there
        return session

    def sessions_of_dead(self, is_alive: Callable[[str], bool]) -> Iterator[tuple[SessionFolder, AgentRecord]]:
        """Yield the sessions of processes that have ended; remove what has no readable record."""
        for name in self._folder.names():
            session = self._session(name)
            if is_alive(name.partition("-")[0]):
                continue
            if (record := session.load()) is not None:
                yield session, record
            else:
                session.remove()

    def take_over(self, session: SessionFolder, owner: str) -> SessionFolder | None:
        """Put the session under a name of this process; None if another process was faster."""
        taken = self._session(_name(owner))
        try:
            self._folder.rename(session.folder.name, taken.folder.name)
        except OSError:
            return None
        return taken

    def _session(self, name: str) -> SessionFolder:
        return SessionFolder(self._folder.below(name), self._trial_user)


def _name(owner: str) -> str:
    """Make the name of a process's folder. It has no colon, which separates paths in variables."""
    return f"{owner.rpartition(':')[2]}-{os.urandom(6).hex()}"


_MOST_DOUBLINGS = 6


class PartCost(Record):
    """What one start of an agent used."""

    usage: Usage
    cost_usd: float
    tokens: int
    """Of the part, whoever served its model."""
    since: float
    """When it started, by the monotonic clock."""


class AgentBooks(Record):
    """Books the sessions of one configuration."""

    choice: AgentChoice
    purse: RunPurse
    archive: Archive
    recorder: Recorder
    is_served: bool
    """Whether loopty serves the agent's model: then each of its calls is paid for on its own."""

    def reserve(self, ask: Ask, parent: Node, wants_proposal: bool = True) -> str:
        """Reserve one call for the session: tokens of a model that loopty does not serve are known at its end."""
        remaining = self.purse.remaining(Role.EVOLVER)
        if not self.is_served and wants_proposal and (remaining.tokens <= 0 or remaining.money_usd <= 0):
            raise Exhausted("the caps on the evolver's tokens or money leave nothing for another session")
        pool = ask.pool if wants_proposal else None
        return self.purse.reserve(
            Role.EVOLVER,
            tokens=0,
            money_usd=0.0,
            model=self._model_name,
            operator=self._operator,
            node=parent.id,
            pool=pool,
        )

    def close_lost(self, call: str, usage: Usage, cost_usd: float, failure: str) -> None:
        """Settle a part whose process was killed."""
        self.purse.settle(call, usage.tokens, cost_usd, usage, failure)

    def close_part(
        self, record: AgentRecord, text: str, cost: PartCost, failure: str, end: SessionEnd | None, resumes: bool
    ) -> None:
        """Save what the agent said, and settle its call together with its end; no end: it was cancelled."""
        self._keep(record, text, cost.usage, failure)
        usage, cost_usd = (Usage(), 0.0) if self.is_served else (cost.usage, cost.cost_usd)
        events = [] if end is None else [self._part_ended(record, cost, end, resumes)]
        self.purse.settle(record.call, usage.tokens, cost_usd, usage, failure, events)

    def cap_watch(self, usage_before: Usage) -> Callable[[AgentStream], str]:
        """Stop an agent with its own login when its stream says that a cap is reached."""
        remaining = self.purse.remaining(Role.EVOLVER)
        if self.is_served or (math.isinf(remaining.tokens) and math.isinf(remaining.money_usd)):
            return lambda _: ""

        def watch(stream: AgentStream) -> str:
            used = usage_since(stream.usage, usage_before).tokens
            if used > remaining.tokens or stream.cost_usd > remaining.money_usd:
                return "reached the cap on the evolver's tokens or money"
            return ""

        return watch

    def bench_when_pathological(self, run: int) -> None:
        """Give the configuration no work for a while, where its last sessions were all lost to stalls."""
        options, configuration = self.choice.stalls, self.choice.configuration

        def decide(history: History) -> list[Event]:
            account = AgentAccounts.of(history.runs[run]).account(configuration)
            if account.lost_in_row < options.bench_after:
                return []
            rest = options.bench_minutes * 60 * 2 ** min(account.benches, _MOST_DOUBLINGS)
            count, last = account.lost_in_row, account.last_stall
            reason = f"its last {count} sessions were lost to stalls, the last one to {last}"
            return [AgentBenched(run, configuration, reason, round(time.time() + rest, 3))]

        self.recorder.record(decide)

    def note_search_stall(self, ask: Ask, stall: Stall) -> None:
        """Record that the configuration's changes do not get on, once for each number of answers."""
        configuration = self.choice.configuration

        def decide(history: History) -> list[Event]:
            account = AgentAccounts.of(history.runs[ask.run]).account(configuration)
            if account.search_answers == account.answers:
                return []
            return [
                AgentSearchStalled(
                    ask.run, ask.pool, configuration, stall.kind, cut_words(stall.reason), account.answers
                )
            ]

        self.recorder.record(decide)

    def text_of_call(self, call: str) -> str:
        """Look up what the agent said in an earlier part."""
        record = self.archive.record(call)
        return record.reply.text if record and record.reply else ""

    def _part_ended(self, record: AgentRecord, cost: PartCost, end: SessionEnd, resumes: bool) -> AgentPartEnded:
        stall = Stall(StallKind.OUTAGE, end.reason) if end.end is AgentEnd.UNAVAILABLE else end.stall
        return AgentPartEnded(
            run=record.run,
            pool=record.pool,
            configuration=self.choice.configuration,
            call=record.call,
            node=record.node,
            end=end.end,
            tokens=cost.tokens,
            seconds=round(time.monotonic() - cost.since, 3),
            reason=cut_words(end.reason),
            stall=stall.kind if stall else "",
            stalled_seconds=round(stall.seconds, 3) if stall else 0.0,
            is_resumed=resumes,
            stalls_before=record.stalls,
            tokens_before=record.tokens_before,
        )

    @property
    def _operator(self) -> str:
        return self.choice.configuration.name

    @property
    def _model_name(self) -> str:
        if self.is_served:
            return f"{self.choice.agent}:session"
        return f"{self.choice.agent}:{self.choice.model or 'own choice'}"

    def _keep(self, record: AgentRecord, text: str, usage: Usage, failure: str) -> None:
        prompt = Prompt("", (Message(Speaker.ASKER, record.prompt),))
        reply = None if failure else Reply(text, usage)
        self.archive.keep(
            record.call,
            prompt,
            reply,
            failure,
            model=self._model_name,
            role=Role.EVOLVER,
            operator=self._operator,
            node=record.node,
        )


def usage_since(usage: Usage, before: Usage) -> Usage:
    """Compute what was used since: never negative, whatever the agent reports."""
    return Usage(
        max(usage.input_tokens - before.input_tokens, 0),
        max(usage.output_tokens - before.output_tokens, 0),
        max(usage.cached_tokens - before.cached_tokens, 0),
        max(usage.reasoning_tokens - before.reasoning_tokens, 0),
    )
