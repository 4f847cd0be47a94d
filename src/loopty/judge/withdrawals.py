"""How a verdict is taken back: by a person, by a late gate, or by an incumbent's own failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.verdicts import NodeReopened, NodeRestored, VerdictWithdrawn


def discard_node(history: History, node: NodeId, why: str) -> Iterator[Event]:
    """The node is not wanted after all. Its result stays, and so do its descendants."""
    found = history[node]
    _require_change(history, node)
    if found.draft:
        raise Misuse(f"{found.name} is a draft without a verdict: `loopty drop {found.name}` removes it")
    if found.verdict in (Verdict.DISCARDED, Verdict.REJECTED):
        raise Misuse(f"{found.name} is {found.verdict} already: {found.reason}")
    yield from withdraw(history, [VerdictWithdrawn(node, Verdict.DISCARDED, why, by_hand=True)])


def invalidate_node(history: History, node: NodeId, why: str) -> Iterator[Event]:
    """The node cheats: nothing that it or a descendant of it measured counts."""
    _require_change(history, node)
    if history[node].is_invalidated:
        raise Misuse(f"{history.name(node)} is invalidated already: {history[node].reason}")
    below = (each for each in history.ids if each.is_within(node) and each != node)
    descendants = [each for each in below if not history[each].is_invalidated]
    withdrawals = [VerdictWithdrawn(node, Verdict.REJECTED, why, by_hand=True)]
    withdrawals += [
        VerdictWithdrawn(each, Verdict.REJECTED, f"{_descent(history[node])}{why}", node, by_hand=True)
        for each in descendants
    ]
    yield from withdraw(history, withdrawals)


def nodes_to_restore(history: History, node: NodeId) -> list[NodeId]:
    """The node and the descendants that were invalidated with it; raises Misuse where nothing can be undone."""
    found = history[node]
    if found.withdrawn is None:
        raise Misuse(f"{found.name} is {found.verdict or 'open'}: no verdict was taken back, so none is restored")
    if not found.withdrawn.by_hand:
        raise Misuse(
            f"a measurement or a gate took the verdict about {found.name} back ({found.reason}): that stays"
        )
    for above in _ancestors(node):
        if history[above].is_invalidated:
            raise Misuse(
                f"{found.name} descends from {history.name(above)}, which is invalidated: restore that first"
            )
    below = (each for each in history.ids if each.is_within(node) and each != node)
    with_it = (each for each in below if _was_withdrawn_with(history, each, node))
    return [node, *with_it]


def restore_nodes(history: History, nodes: Sequence[NodeId], why: str) -> Iterator[Event]:
    """Take a person's withdrawals back. None of these nodes is kept by that: what was kept has to win again."""
    for node in nodes:
        if history[node].files_removed:
            raise Misuse(
                f"the files of {history.name(node)} were removed by `loopty gc`: it cannot be measured again"
            )
        yield NodeRestored(node, why)


def _was_withdrawn_with(history: History, node: NodeId, above: NodeId) -> bool:
    withdrawn = history[node].withdrawn
    return withdrawn is not None and withdrawn.by_hand and withdrawn.why.startswith(_descent(history[above]))


def _descent(node: Node) -> str:
    return f"descends from {node.name}: "


def _ancestors(node: NodeId) -> Iterator[NodeId]:
    while parent := node.parent:
        yield parent
        node = parent


def reject_by_gate(history: History, refusals: Mapping[NodeId, str]) -> Iterator[Event]:
    """These nodes fail a gate that was added after their verdict; each with the gate's reason."""
    yield from withdraw(
        history, [VerdictWithdrawn(node, Verdict.REJECTED, reason) for node, reason in refusals.items()]
    )


def withdraw(history: History, withdrawals: Sequence[VerdictWithdrawn]) -> Iterator[Event]:
    """Take these verdicts back: the best is elected anew, and what lost only against one of them is open again.

    All withdrawals come first, so that nothing comes back that is withdrawn itself.
    """
    yield from withdrawals
    for event in withdrawals:
        yield from _reopen_losers(history, event.node)


def _reopen_losers(history: History, node: NodeId) -> Iterator[Event]:
    """The return of what lost only against this node: one more judgement each, at most one per cause."""
    reason = f"lost only against {history.name(node)}, whose verdict was withdrawn"
    lost = (Verdict.DISCARDED, Verdict.INCONCLUSIVE)
    for other in list(history.nodes(node.run, history[node].pool)):
        has_result = other.outcome and other.outcome.is_finished and not other.fault
        may_return = has_result and not (other.withdrawn or other.files_removed) and node not in other.reopened_for
        if other.against == node and other.verdict in lost and may_return:
            yield NodeReopened(other.id, reason, node)


def _require_change(history: History, node: NodeId) -> None:
    if history[node].id.parent is None:
        name = history.name(node)
        raise Misuse(f"{name} is the baseline: if it is wrong, start a new run with `loopty optimize --new-run`")
