"""How a verdict is taken back: by a person, or by a gate that was added later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.judge.incumbents import reopen_losers
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.verdicts import VerdictWithdrawn


def discard_node(history: History, node: NodeId, why: str) -> Iterator[Event]:
    """The node is not wanted after all. Its result stays, and so do its descendants."""
    found = history[node]
    _require_change(history, node)
    if found.draft:
        raise Misuse(f"node {node} is a draft without a verdict: `loopty drop {node}` removes it")
    if found.verdict in (Verdict.DISCARDED, Verdict.REJECTED):
        raise Misuse(f"node {node} is {found.verdict} already: {found.reason}")
    yield from _withdraw(history, [VerdictWithdrawn(node, Verdict.DISCARDED, why)])


def invalidate_node(history: History, node: NodeId, why: str) -> Iterator[Event]:
    """The node cheats: nothing that it or a descendant of it measured counts."""
    _require_change(history, node)
    if history[node].is_invalidated:
        raise Misuse(f"node {node} is invalidated already: {history[node].reason}")
    below = (each for each in history.ids if each.is_within(node) and each != node)
    descendants = [each for each in below if not history[each].is_invalidated]
    withdrawals = [VerdictWithdrawn(node, Verdict.REJECTED, why)]
    withdrawals += [
        VerdictWithdrawn(each, Verdict.REJECTED, f"descends from {node}: {why}", node) for each in descendants
    ]
    yield from _withdraw(history, withdrawals)


def reject_by_gate(history: History, refusals: Mapping[NodeId, str]) -> Iterator[Event]:
    """These nodes fail a gate that was added after their verdict; each with the gate's reason."""
    yield from _withdraw(
        history, [VerdictWithdrawn(node, Verdict.REJECTED, reason) for node, reason in refusals.items()]
    )


def _withdraw(history: History, withdrawals: list[VerdictWithdrawn]) -> Iterator[Event]:
    """All withdrawals first, so that nothing comes back that is withdrawn itself."""
    yield from withdrawals
    for event in withdrawals:
        reason = f"lost only against {event.node}, whose verdict was withdrawn"
        yield from reopen_losers(history, event.node, reason)


def _require_change(history: History, node: NodeId) -> None:
    if history[node].id.parent is None:
        raise Misuse(f"{node} is the baseline: start anew with `loopty optimize --new-run` if it is wrong")
