"""Pages: the parts of the fold that a ledger saves, one per run and one per node, and how it gives them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.kit.dataclass import dataclass


class NodeFacts(NamedTuple):
    """What views ask about every node of a run: a ledger gives it without decoding the node's page."""

    order: int
    verdict: str | None
    ending: str | None
    """How the judging trial ended; None before that."""
    fingerprint: str
    """The one of the outcome."""
    metric: str | None
    """The most important metric when the page was saved, to which the score belongs."""
    score: float | None
    repeats: int
    """How often the node and the incumbent beside it were measured again."""
    error_rate: float | None
    """Of the comparison in pairs that led to the verdict."""
    is_plain: bool
    """Whether this is all: no result under another fingerprint, and no verdict that was taken back."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """What a node is found by."""

    handle: int
    run: int
    pool: Pool
    waits: bool
    """Whether the node waits for a trial."""
    identity: str | None
    """Where it became known in this write: the node is new, or no longer a draft."""
    facts: NodeFacts


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the fold: a run or a node as one line of JSON; for a node, also what it is found by."""

    body: str
    place: NodePlace | None = None


class FactsRow(NamedTuple):
    """The facts of one node."""

    node: NodeId
    handle: int
    pool: Pool
    facts: NodeFacts


class SavedNodes(Protocol):
    """The nodes that a ledger has saved, read when they are asked for; always those of the last write."""

    def page(self, node: NodeId) -> str | None:
        """The node as one line of JSON; None if there is no such node."""
        ...

    def count(self) -> int:
        """The number of nodes of all runs."""
        ...

    def ids(self) -> Iterator[NodeId]:
        """All ids, in the order in which the nodes were added."""
        ...

    def node_of_handle(self, handle: int) -> NodeId | None: ...

    def pool_size(self, run: int, pool: Pool) -> int:
        """The number of nodes of one pool of one run."""
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

    def facts(self, run: int, pool: Pool) -> Iterator[FactsRow]:
        """The facts of every node of one pool of one run, oldest first."""
        ...
