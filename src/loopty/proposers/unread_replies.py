"""Proposals in replies that were paid for and wait to be taken."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from loopty.domain.ids import NodeId
from loopty.engine.protocols import Ask
from loopty.record.calls import Spend


@dataclass(frozen=True, slots=True)
class UnreadItem:
    """The next item of a reply."""

    call: str
    operator: str
    node: NodeId
    """What the call was about."""
    item: int


class UnreadReplies:
    """Hands out each item once, also where several are asked for at a time.

    The ledger knows what waits; but it learns that an item was taken only after the proposer has answered with it,
    and it knows of a reply before the one who asked for it has read it.
    """

    def __init__(self, operators: Collection[str]) -> None:
        """`operators` are those whose replies are taken from here; others are left to others."""
        self._operators = operators
        self._free_calls: set[str] | None = None
        self._next: dict[str, int] = {}

    def take(self, ask: Ask) -> UnreadItem | None:
        """The next item that waits for this pool, from the oldest reply that nobody is reading."""
        unread = Spend.of(ask.history.runs[ask.run]).unread
        if self._free_calls is None:
            self._free_calls = set(unread)  # what an earlier process left
        self._free_calls &= unread.keys()
        self._next = {call: item for call, item in self._next.items() if call in unread}
        for call, reply in unread.items():
            ours = call in self._free_calls and reply.pool is ask.pool and reply.operator in self._operators
            item = _first_free(reply.taken, self._next.get(call, 0))
            if ours and reply.node and (item < reply.size or not reply.size):
                self._next[call] = item + 1
                return UnreadItem(call, reply.operator, reply.node, item)
        return None

    def put(self, call: str, taken: int, remaining: int) -> None:
        """Let others have what waits in a reply, of which the first items are taken."""
        if not remaining:
            self.close(call)
        elif self._free_calls is not None:
            self._free_calls.add(call)
            self._next[call] = taken

    def close(self, call: str) -> None:
        """Nothing waits in this reply any more."""
        if self._free_calls is not None:
            self._free_calls.discard(call)


def _first_free(taken: Collection[int], start: int) -> int:
    """The first number from the start on that is not taken."""
    while start in taken:
        start += 1
    return start
