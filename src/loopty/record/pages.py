"""Pages: the parts of the fold that a ledger saves, and how it gives them back.

There is one per run and one for each block of entries of its long mappings, one per node, and one for the facts of
each block of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.kit.records import Record

RUN_KEY = "run "
FACTS_KEY = "facts "
"""How the keys of pages begin; a node's key is its id."""


UNREADABLE = (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What reading a page raises that no version of loopty wrote."""


LEDGER_REMEDY = (
    "Put back a copy of it, or move it away to begin a new one (`loopty ledger` says where it is); the commits of "
    "nodes are in git, whatever the ledger says"
)


def damaged_page(what: str) -> Misuse:
    """The error for a page that cannot be read."""
    return Misuse(f"the ledger was changed by hand: the record of {what} is damaged. {LEDGER_REMEDY}")


def facts_key(block: int) -> str:
    """The key of the facts of a block: with leading zeros, so that keys are in the order of blocks."""
    return f"{FACTS_KEY}{block:010}"


class NodePlace(Record):
    """What a node is found by, and what a line of the tree shows of it."""

    handle: int
    run: int
    pool: Pool
    waits: bool
    """Whether the node waits for a trial."""
    identity: str | None
    """Where it became known in this write: the node is new, or no longer a draft."""
    tree_facts: str
    """What a line of the tree needs of it, as one line of JSON."""


class Page(Record):
    """One page of the fold as one line of JSON; for a node, also what it is found by and shown with."""

    body: str
    place: NodePlace | None = None


class SavedNodes(Protocol):
    """The nodes that a ledger has saved, read when they are asked for; always those of the last write."""

    def page(self, node: NodeId) -> str | None:
        """The node as one line of JSON; None if there is no such node."""
        ...

    def pages(self) -> Iterator[tuple[NodeId, str]]:
        """All nodes, each as one line of JSON, in the order in which they were added."""
        ...

    def tree_facts(self, node: NodeId) -> str | None:
        """What a line of the tree needs of the node, as one line of JSON; None if there is no such node."""
        ...

    def all_tree_facts(self) -> Iterator[tuple[NodeId, str]]:
        """The same of all nodes, in the order in which they were added, without a look at their pages."""
        ...

    def count(self) -> int:
        """The number of nodes of all runs."""
        ...

    def ids(self) -> Iterator[NodeId]:
        """All ids, in the order in which the nodes were added."""
        ...

    def node_of_handle(self, handle: int) -> NodeId | None: ...

    def pool_size(self, run: int, pool: Pool, newest: int) -> int:
        """The number of nodes of one pool of one run, up to the short name `newest`."""
        ...

    def nodes_of_pool(self, run: int, pool: Pool, start: int, stop: int) -> Sequence[NodeId]:
        """The nodes of one pool of one run from place `start` to before `stop`, oldest first."""
        ...

    def twins(self, run: int, identity: str) -> Sequence[tuple[NodeId, Pool]]:
        """The nodes of this run that are the same experiment, each with its pool, oldest first."""
        ...

    def waiting_nodes(self, run: int, pool: Pool) -> Sequence[NodeId]:
        """The nodes that wait for a trial, oldest first."""
        ...

    def nodes_of_handles(self, handles: Sequence[int]) -> Mapping[int, NodeId]:
        """The nodes with these handles; those that do not exist are left out."""
        ...

    def facts_page(self, block: int) -> str | None:
        """The facts of one block of nodes as one line of JSON; None if it has no node yet."""
        ...

    def facts_pages(self) -> Iterator[tuple[int, str]]:
        """The facts of all blocks with their numbers, oldest first."""
        ...
