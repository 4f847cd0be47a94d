"""A coding agent changes the files of the selected node, in a tree of its own; its edits are the proposal.

What a session costs and how it ended is in the ledger. A session that leaves no usable change is a refusal with
its reason, one that stalled is on the account of its agent; neither costs an attempt.
"""

from __future__ import annotations

from loopty.agents.agent_stream import AgentEnd
from loopty.agents.agent_work import AgentWork
from loopty.domain.model import Outage
from loopty.domain.proposal import Objection, Proposal, ProposerStall, Refusal
from loopty.engine.protocols import Ask
from loopty.kit import globs
from loopty.kit.fence import one_line
from loopty.kit.records import replace
from loopty.proposers.agent_fleet import AgentFleet, FleetMember
from loopty.proposers.agent_options import AgentOptions
from loopty.proposers.agent_prompt import agent_prompt, agent_summary
from loopty.proposers.search_stalls import search_stall
from loopty.proposers.services import Services

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
            self._fleet.note_stall(member)
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
    """The work without edits of files that are other agents' part."""
    outside = [path for path in work.edits if surface and not globs.matches(path, surface)]
    edits = {path: content for path, content in work.edits.items() if path not in outside}
    return replace(work, edits=edits, left_out=(*work.left_out, *outside)) if outside else work


def _fault(agent: str, work: AgentWork) -> str:
    """Why a session gives no proposal, or an empty text."""
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
