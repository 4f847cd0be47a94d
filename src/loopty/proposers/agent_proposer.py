"""A coding agent changes the files of the selected node, in a tree of its own; its edits are the proposal.

What a session costs and how it ended is in the ledger. A session that leaves no usable change is a refusal with
its reason, and costs no attempt.
"""

from __future__ import annotations

from loopty.agents.agent_stream import AgentEnd
from loopty.agents.agent_work import AgentSessions, AgentWork
from loopty.domain.proposal import Objection, Proposal, Refusal
from loopty.engine.protocols import Ask, Selector
from loopty.kit.fence import one_line
from loopty.proposers.agent_options import AgentOptions
from loopty.proposers.agent_prompt import agent_prompt, agent_summary
from loopty.proposers.prompt_context import PromptContext
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
    """Lets a coding agent work, and takes what it leaves."""

    name = "agent"

    def __init__(
        self, agent: str, sessions: AgentSessions, selector: Selector, context: PromptContext, width: int = 1
    ) -> None:
        self.width = width
        self._agent = agent
        self._sessions = sessions
        self._selector = selector
        self._context = context

    async def propose(self, ask: Ask) -> Proposal | Refusal:
        if work := await self._sessions.work_left_behind(ask):
            return self._suggestion(work, "an earlier session changed it")
        selection = self._selector.select(ask)
        prompt = agent_prompt(selection.node, self._context.text(ask, selection.node))
        return self._suggestion(await self._sessions.work(ask, selection.node, prompt), selection.reason)

    def _suggestion(self, work: AgentWork, parent_reason: str) -> Proposal | Refusal:
        if fault := _fault(self._agent, work):
            objection = Objection.FORBIDDEN if work.left_out and not work.edits else Objection.REPLY
            # One call stands for the session, however often it asked its model: each counts as fruitless.
            return Refusal(self._agent, fault, objection, work.calls[-1:])
        notes = [agent_summary(work.text) or f"changed {_names(tuple(work.edits))}"]
        if work.end.end is AgentEnd.LIMITED:
            notes.append(f"stopped: {work.end.reason}")
        if work.left_out:
            notes.append(f"left out {_names(work.left_out)}: not writable")
        return Proposal(
            self._agent,
            work.parent,
            "; ".join(notes),
            edits=work.edits,
            calls=work.calls,
            parent_reason=parent_reason,
        )


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
        options.agent,
        services.agent_sessions(options.choice),
        services.make_selector(options.parents),
        services.prompt_context(options.briefing, services.access),
        services.width,
    )
