"""A coding agent changes the selected node: whose turn it is, what it is asked, and when its changes no longer get
on.

What a session costs and how it ended is in the ledger. A session that leaves no usable change is a refusal with
its reason, one that stalled is on the account of its agent; neither costs an attempt.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from loopty.domain.errors import Exhausted
from loopty.domain.model import AgentOutage, Outage
from loopty.domain.proposal import Objection, Proposal, ProposerStall, Refusal
from loopty.domain.trial import Outcome
from loopty.engine.protocols import Ask, Selector
from loopty.features.agents.options import AgentOptions
from loopty.kit import paths
from loopty.kit.foreign_text import FENCED_IS_DATA, one_line
from loopty.kit.records import Record, replace
from loopty.proposers.agent.driver import BY_COMMAND
from loopty.proposers.agent.stalls import Stall, StallKind
from loopty.proposers.agent.stream import AgentEnd
from loopty.proposers.agent.work import AgentChoice, AgentSessions, AgentWork
from loopty.proposers.context.prompt_context import PromptContext
from loopty.proposers.services import Services
from loopty.record.agent_accounts import AgentAccount, AgentAccounts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.show.comparisons import over_parent
from loopty.tools.table import prompt_lines

_MAX_NAMES = 3
_LONGEST_WORDS = 120
_ENDS = {
    AgentEnd.CRASHED: "crashed",
    AgentEnd.REFUSED: "declined the work",
    AgentEnd.LIMITED: "was stopped",
    AgentEnd.UNAVAILABLE: "could not ask its model",
}


class AgentProposer:
    """Lets coding agents work, and takes what they leave."""

    name = "agent"

    def __init__(self, fleet: AgentFleet, width: int = 1) -> None:
        self.width = width
        self._fleet = fleet

    async def propose(self, ask: Ask) -> Proposal | Refusal | ProposerStall:
        for member in self._fleet.members:
            if work := await member.sessions.work_left_behind(ask, self._fleet.names):
                return self._suggestion(member, work, "an earlier session changed it")
        await asyncio.sleep(self._fleet.pause(ask))
        member = self._fleet.next_member(ask)
        selection = member.selector.select(ask)
        stall = search_stall(ask.history, member.account(ask)) if member.choice.stalls.watch else None
        if stall:
            member.sessions.note_search_stall(ask, stall)
        context = member.context.text(ask, selection.node)
        prompt = agent_prompt(selection.node, context, member.choice, stall, member.has_slice)
        with self._fleet.turn(member):
            try:
                work = await member.sessions.work(ask, selection.node, prompt)
            except Outage as outage:
                self._fleet.note_outage(member, outage)
                return ProposerStall(member.name, str(outage))
        return self._suggestion(member, work, selection.reason)

    def _suggestion(
        self, member: FleetMember, work: AgentWork, parent_reason: str
    ) -> Proposal | Refusal | ProposerStall:
        if work.end.stall:
            self._fleet.note_stall(member, work.end.stall)
            return ProposerStall(member.name, work.end.reason)
        self._fleet.note_end(member)
        work = _within_surface(work, member.choice.surface)
        if fault := _fault(member.name, work):
            objection = Objection.FORBIDDEN if work.left_out and not work.edits else Objection.REPLY
            # One call stands for the session, however often it asked its model: each counts as fruitless.
            return Refusal(member.name, fault, objection, work.calls[-1:])
        notes = [agent_summary(work.text) or f"changed {_names(tuple(work.edits))}"]
        if work.end.end is AgentEnd.LIMITED:
            notes.append(f"stopped: {work.end.reason}")
        if work.left_out:
            notes.append(f"left out {_names(work.left_out)}: not writable")
        return Proposal(
            member.name,
            work.parent,
            "; ".join(notes),
            edits=work.edits,
            calls=work.calls,
            parent_reason=parent_reason,
        )


def _within_surface(work: AgentWork, surface: tuple[str, ...]) -> AgentWork:
    """Return the work without edits of files that are other agents' part."""
    outside = [path for path in work.edits if surface and not paths.matches(path, surface)]
    edits = {path: content for path, content in work.edits.items() if path not in outside}
    return replace(work, edits=edits, left_out=(*work.left_out, *outside)) if outside else work


def _fault(agent: str, work: AgentWork) -> str:
    """Say why a session gives no proposal, or return an empty text."""
    if not work.end.has_work:
        return f"{agent} {_ENDS[work.end.end]}: {work.end.reason}"
    if work.fault:
        return f"{agent} left files that cannot be taken: {work.fault}"
    if work.edits:
        return ""
    how = f" and {_ENDS[work.end.end]} ({work.end.reason})" if work.end.reason else ""
    if work.left_out:
        return f"{agent} changed only {_names(work.left_out)}, which it may not change{how}"
    words = one_line(agent_summary(work.text), _LONGEST_WORDS)
    return f"{agent} changed nothing{how}" + (f": {words}" if words else "")


def _names(paths: tuple[str, ...]) -> str:
    shown = ", ".join(one_line(path, _LONGEST_WORDS) for path in sorted(paths)[:_MAX_NAMES])
    return shown + (f" and {len(paths) - _MAX_NAMES} more" if len(paths) > _MAX_NAMES else "")


def make_proposer(options: AgentOptions, services: Services) -> AgentProposer:
    return AgentProposer(
        AgentFleet([_make_member(member, services) for member in options.members]), services.width
    )


def _make_member(options: AgentOptions, services: Services) -> FleetMember:
    return FleetMember(
        options.choice,
        services.agent_sessions(options.choice),
        services.make_selector(options.parents),
        services.prompt_context(options.briefing, services.access),
        options.weight,
        services.limits.tune_trials is not None,
    )


_REST_SECONDS = 300.0
"""How long an agent whose model is unavailable gets no work, where others can go on."""
_BACK_OFF = (2.0, 10.0, 60.0, 300.0)
"""Seconds until an agent that ended before it began is started again."""
_CANNOT_START = re.compile(r"exit code 12[67]\b")
"""Of shells, for a program that is not there or cannot be run: no later start would find it."""


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
        """Look up what the ledger says about it."""
        return AgentAccounts.of(ask.history.runs[ask.run]).account(self.choice.configuration)


class AgentFleet:
    """Shares sessions by weight. What was done is read from the ledger, so that a new process goes on the same."""

    def __init__(self, members: Sequence[FleetMember], clock: Callable[[], float] = time.time) -> None:
        self.members = members
        self._clock = clock
        self._busy: Counter[str] = Counter()
        self._outages: dict[str, tuple[float, Outage]] = {}
        self._failed_starts: Counter[str] = Counter()
        self._rests: dict[str, float] = {}
        """When an agent that ended before it began is started again."""
        self._last_stalled = ""
        """Whose session was lost last: the work goes elsewhere, if there is another."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    def next_member(self, ask: Ask) -> FleetMember:
        """Choose whose turn it is. Raises Exhausted when all are benched, Outage when the rest is out of reach."""
        now = self._clock()
        benched = {member.name for member in self.members if member.account(ask).benched_until > now}
        if len(benched) == len(self.members):
            raise Exhausted(self._bench_words(ask))
        out = {name for name, (since, _) in self._outages.items() if now - since < _REST_SECONDS}
        free = [member for member in self.members if member.name not in benched | out]
        if not free:
            raise self._outages[next(name for name in self.names if name in out)][1]
        free = [member for member in free if self._rests.get(member.name, 0.0) <= now] or free
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

    def pause(self, ask: Ask) -> float:
        """Return for how long all who could work rest after failed starts; 0: somebody can start."""
        now = self._clock()
        waits = [
            self._rests.get(member.name, 0.0) - now
            for member in self.members
            if member.account(ask).benched_until <= now
            and now - self._outages.get(member.name, (-_REST_SECONDS, None))[0] >= _REST_SECONDS
        ]
        return max(min(waits, default=0.0), 0.0)

    def note_stall(self, member: FleetMember, stall: Stall) -> None:
        """Let the next session be another member's. Raises AgentOutage where no start gets on."""
        self._last_stalled = member.name
        if stall.kind is not StallKind.START:
            self._failed_starts[member.name] = 0
            return
        can_start, failed = not _CANNOT_START.match(stall.reason), self._failed_starts[member.name]
        if can_start and self._clock() < self._rests.get(member.name, 0.0):
            return  # a session beside the one that failed: both are one hiccup
        self._failed_starts[member.name] = failed + 1
        if can_start and failed < len(_BACK_OFF):
            self._rests[member.name] = self._clock() + _BACK_OFF[failed]
            return
        self._failed_starts[member.name] = 0
        times = "at its first start" if not failed else f"at each of {failed + 1} starts"
        remedy = "correct its command under [proposer]"
        if member.choice.agent not in BY_COMMAND:
            remedy = f"try `loopty doctor --agent {member.choice.agent}`"
        words = (
            f"{member.name} ended before it asked its model or changed a file, {times}: {stall.reason}; {remedy}"
        )
        self.note_outage(member, AgentOutage(words))

    def note_end(self, member: FleetMember) -> None:
        """Note that the member's session came to an end: whoever stalled before may have the next one."""
        self._failed_starts[member.name] = 0
        if member.name != self._last_stalled or len(self.members) == 1:
            self._last_stalled = ""

    def note_outage(self, member: FleetMember, outage: Outage) -> None:
        """Give the member no work for a while. Raises the outage where no other member could have it."""
        if len(self.members) == 1:
            raise outage
        self._outages[member.name] = self._clock(), outage

    def _load(self, ask: Ask, member: FleetMember) -> float:
        """Compute how much of its share the member has had; a search that is stuck halves its share."""
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
            f"{'; '.join(texts)}; `loopty run` goes on then, or at once after a change of its options "
            "(an attempt was not charged)"
        )


_LONGEST_SUMMARY = 120
_SUMMARY = re.compile(r"^\W*SUMMARY\W*:?\s*(.+)$", re.MULTILINE)
_HEAD = """\
You are one step of a search that improves a program. Make one change to it that you expect to improve the
objective below, and leave it in the files. {fences}

The current directory holds the files of node {node}, and you change them in place. Somebody else measures the
result after you are done, with a benchmark that you cannot change. You can read, build, test and profile here;
what counts is only what is then in the files that may be changed. No person reads along, so ask nothing and wait
for nothing.
"""
_TAIL = """\
# What to do

- Make one change with a clear idea behind it. Look at what was tried before and at how it ended: do not repeat it.
- Change only the files that may be changed. Everything else is read-only or is put back: tests, the benchmark,
  notes and helpers of yours are no part of the result. Remove temporary files.
- The program must stay correct. Check it with what is here: tests, a type checker, a small run.
{tools}
- Your edits are taken when you end: there is nothing to submit.
- Do not use git, and do not look for the files of the search itself.
- End with one line: `SUMMARY:` and what you changed and why, in at most 15 words.
"""


def agent_prompt(
    parent: Node, context: str, choice: AgentChoice, stall: Stall | None = None, has_slice: bool = False
) -> str:
    """Write the whole prompt of a session; `context` is about the task and the search so far, also by others."""
    head = _HEAD.format(fences=FENCED_IS_DATA, node=parent.name)
    own = ""
    if choice.surface:
        own += f"- Change only {', '.join(choice.surface)}: others work on the rest.\n"
    if choice.prompt:
        own += f"- {choice.prompt.strip()}\n"
    if stall:
        own += f"- Your search does not get on: {stall.reason}. Choose another approach, in another place.\n"
    return f"{head}\n{context}\n{_TAIL.format(tools=prompt_lines(has_slice))}{own}"


def agent_summary(text: str) -> str:
    """Find what the agent says that it did, in one line; empty if it says nothing."""
    if found := _SUMMARY.findall(text):
        return one_line(found[-1].strip("` "), _LONGEST_SUMMARY)
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[0], _LONGEST_SUMMARY) if lines else ""


_SAME_CHANGES = 2
_IDLE_SESSIONS = 3
_SAME_FAILURES = 3
_BELOW_NOISE = 4
_LONGEST_REASON = 160


def search_stall(history: History, account: AgentAccount) -> Stall | None:
    """Say why the configuration's search is stuck, or None. It looks at its newest answers alone."""
    if account.last_objection == Objection.DUPLICATE and account.refusals_in_row >= _SAME_CHANGES:
        return Stall(StallKind.SAME_CHANGE, f"your last {account.refusals_in_row} changes had been tried before")
    if account.last_objection == Objection.REPLY and account.refusals_in_row >= _IDLE_SESSIONS:
        return Stall(StallKind.IDLE, f"your last {account.refusals_in_row} sessions left no usable change")
    nodes = [node for node in map(history.__getitem__, account.recent) if node.outcome and node.verdict]
    return _same_failure(nodes[-_SAME_FAILURES:]) or _below_noise(history, nodes[-_BELOW_NOISE:])


def _same_failure(nodes: list[Node]) -> Stall | None:
    failures = {_failure(node.outcome) for node in nodes if node.outcome}
    if len(nodes) < _SAME_FAILURES or len(failures) != 1 or not (reason := failures.pop()):
        return None
    return Stall(StallKind.SAME_FAILURE, f"your last {len(nodes)} changes failed in the same way: {reason}")


def _failure(outcome: Outcome) -> str:
    """Say how the trial failed, in one line; empty if it finished."""
    return "" if outcome.is_finished else one_line(f"{outcome.ending}: {outcome.reason}", _LONGEST_REASON)


def _below_noise(history: History, nodes: list[Node]) -> Stall | None:
    changes = [over_parent(history, node) for node in nodes]
    if len(changes) < _BELOW_NOISE or not all(change and change.is_within_noise for change in changes):
        return None
    return Stall(StallKind.BELOW_NOISE, f"the effects of your last {len(changes)} changes are below the noise")
