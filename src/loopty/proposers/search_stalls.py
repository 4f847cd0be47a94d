"""Search stalls: the sessions of a configuration end well, but its changes do not get on."""

from __future__ import annotations

from loopty.agents.stall import Stall, StallKind
from loopty.domain.outcome import Outcome
from loopty.domain.proposal import Objection
from loopty.kit.fence import one_line
from loopty.record.agent_accounts import AgentAccount
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.views.over_parent import over_parent

_SAME_CHANGES = 2
_IDLE_SESSIONS = 3
_SAME_FAILURES = 3
_BELOW_NOISE = 4
_LONGEST_REASON = 160


def search_stall(history: History, account: AgentAccount) -> Stall | None:
    """Why the configuration's search does not get on, or None. It looks at its newest answers alone."""
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
    """How the trial failed, in one line; empty where it finished."""
    return "" if outcome.is_finished else one_line(f"{outcome.ending}: {outcome.reason}", _LONGEST_REASON)


def _below_noise(history: History, nodes: list[Node]) -> Stall | None:
    changes = [over_parent(history, node) for node in nodes]
    if len(changes) < _BELOW_NOISE or not all(change and change.is_within_noise for change in changes):
        return None
    return Stall(StallKind.BELOW_NOISE, f"the effects of your last {len(changes)} changes are below the noise")
