"""What proposers that share a pool have in common: their turns, the node they change, replies not taken yet, and
words for parameters and parents.
"""

from __future__ import annotations

from collections.abc import Collection

from loopty.domain.ids import NodeId
from loopty.domain.space import Params
from loopty.engine.protocols import Ask
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.node_record import Node
from loopty.record.nodes import Proposals


def turn(ask: Ask, operator: str) -> int:
    """Count the answers that this operator has given in the pool; the answers of others do not count."""
    return Proposals.of(ask.history.runs[ask.run], ask.pool).answers.get(operator, 0) + ask.ahead


def parameter_parent(ask: Ask) -> Node:
    """Return the first node with the best node's code: the baseline as long as only parameters have changed."""
    node = ask.best
    while (parent := node.id.parent) and ask.history[parent].tree == node.tree:
        node = ask.history[parent]
    return node


class UnreadItem(Record):
    """The next proposal of a reply."""

    call: str
    operator: str
    node: NodeId
    """The node that the call was about."""
    index: int
    """The proposal's position in the reply, from 0."""


class UnreadReplies:
    """Hands out each proposal once, even when several are asked for at the same time.

    The ledger alone is not enough: it learns that a proposal is taken only after the proposer has answered with
    it, and it knows of a reply before the caller has read it.
    """

    def __init__(self, operators: Collection[str]) -> None:
        """Serve the replies to these operators; other proposers take the rest."""
        self._operators = operators
        self._free_calls: set[str] | None = None
        """Replies that nobody is reading; None before the first question."""
        self._next: dict[str, int] = {}
        """The next position to hand out, by call."""

    def take(self, ask: Ask) -> UnreadItem | None:
        """Take the next proposal for this pool, from the oldest reply that nobody is reading, or None."""
        unread = Spend.of(ask.history.runs[ask.run]).unread
        if self._free_calls is None:
            self._free_calls = set(unread)  # left by an earlier process
        self._free_calls &= unread.keys()
        self._next = {call: index for call, index in self._next.items() if call in unread}
        for call, reply in unread.items():
            is_ours = call in self._free_calls and reply.pool is ask.pool and reply.operator in self._operators
            index = _first_free(reply.taken, self._next.get(call, 0))
            if is_ours and reply.node and (index < reply.size or not reply.size):
                self._next[call] = index + 1
                return UnreadItem(call, reply.operator, reply.node, index)
        return None

    def put(self, ask: Ask, call: str, taken: int, remaining: int) -> None:
        """Offer the remaining proposals of a reply whose first `taken` are taken."""
        if remaining and ask.purse:
            ask.purse.record_settled()  # the next question may come first, and finds what the ledger knows
        if not remaining:
            self.close(call)
        elif self._free_calls is not None:
            self._free_calls.add(call)
            self._next[call] = taken

    def close(self, call: str) -> None:
        """Offer nothing more from this reply."""
        if self._free_calls is not None:
            self._free_calls.discard(call)


def _first_free(taken: Collection[int], start: int) -> int:
    """Return the first number from `start` on that is not taken."""
    while start in taken:
        start += 1
    return start


def params_line(params: Params) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in params.items()
    )


PARENTS = (
    "The selector of the node to change (`docs/search.md`). A table sets its options: "
    '`{ kind = "islands", count = 8 }`.'
)
