"""Several coding agents, models or prompts that share the work: whose turn it is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from loopty.agents.agent_work import AgentChoice, AgentSessions
from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage
from loopty.engine.protocols import Ask, Selector
from loopty.kit.records import Record
from loopty.proposers.prompt_context import PromptContext
from loopty.record.agent_accounts import AgentAccount, AgentAccounts

_REST_SECONDS = 300.0
"""How long an agent whose model is unavailable gets no work, where others can go on."""


class FleetMember(Record):
    """One way of using a coding agent, and its share of the work."""

    choice: AgentChoice
    sessions: AgentSessions
    selector: Selector
    context: PromptContext
    weight: float = 1.0
    has_slice: bool = False
    """Whether the agent may measure its files on the slice of `[tune]`."""

    @property
    def name(self) -> str:
        return self.choice.configuration.name

    def account(self, ask: Ask) -> AgentAccount:
        """What the ledger says about it."""
        return AgentAccounts.of(ask.history.runs[ask.run]).account(self.choice.configuration)


class AgentFleet:
    """Shares sessions by weight. What was done is read from the ledger, so that a new process goes on the same."""

    def __init__(self, members: Sequence[FleetMember], clock: Callable[[], float] = time.time) -> None:
        self.members = members
        self._clock = clock
        self._busy: Counter[str] = Counter()
        self._outages: dict[str, tuple[float, Outage]] = {}
        self._last_stalled = ""
        """Whose session was lost last: the work goes elsewhere, if there is another."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    def next_member(self, ask: Ask) -> FleetMember:
        """Whose turn it is. Raises Exhausted when all are benched, Outage when the rest is out of reach."""
        now = self._clock()
        benched = {member.name for member in self.members if member.account(ask).benched_until > now}
        if len(benched) == len(self.members):
            raise Exhausted(self._bench_words(ask))
        out = {name for name, (since, _) in self._outages.items() if now - since < _REST_SECONDS}
        free = [member for member in self.members if member.name not in benched | out]
        if not free:
            raise self._outages[next(name for name in self.names if name in out)][1]
        elsewhere = [member for member in free if member.name != self._last_stalled] or free
        return min(elsewhere, key=lambda member: self._load(ask, member))

    @contextmanager
    def turn(self, member: FleetMember) -> Iterator[None]:
        """Count the member as busy meanwhile."""
        self._busy[member.name] += 1
        try:
            yield
        finally:
            self._busy[member.name] -= 1

    def note_stall(self, member: FleetMember) -> None:
        """Let the next session be another member's."""
        self._last_stalled = member.name

    def note_end(self, member: FleetMember) -> None:
        """The member's session came to an end: whoever stalled before may have the next one."""
        if member.name != self._last_stalled or len(self.members) == 1:
            self._last_stalled = ""

    def note_outage(self, member: FleetMember, outage: Outage) -> None:
        """Give the member no work for a while. Raises the outage where no other member could have it."""
        if len(self.members) == 1:
            raise outage
        self._outages[member.name] = self._clock(), outage

    def _load(self, ask: Ask, member: FleetMember) -> float:
        """How much of its share the member has had; a search that does not get on halves its share."""
        account = member.account(ask)
        is_stuck = account.search_answers == account.answers
        share = member.weight / 2 if is_stuck else member.weight
        return (account.sessions + self._busy[member.name]) / share

    def _bench_words(self, ask: Ask) -> str:
        texts = []
        for member in self.members:
            account = member.account(ask)
            until = time.strftime("%H:%M", time.localtime(account.benched_until))
            texts.append(f"{member.name} is benched until {until}, because {account.bench_reason}")
        return (
            f"{'; '.join(texts)}; `loopty optimize` goes on then, or at once after a change of its options "
            "(an attempt was not charged)"
        )
