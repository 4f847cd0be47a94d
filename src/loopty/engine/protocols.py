"""The parts that plug into the loop, as protocols. `loopty.testing` has suites for those who write new ones."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from loopty.domain.curve import Curve, Row
from loopty.domain.gate_spec import Gate
from loopty.domain.launch import Mount
from loopty.domain.objective import Directions
from loopty.domain.outcome import Outcome, Pool
from loopty.domain.proposal import Edits, Proposal, Suggestion
from loopty.record.history import History
from loopty.record.records import Node

if TYPE_CHECKING:
    import asyncio


class Purse(Protocol):
    """How a proposer spends tokens and money: reserved before a call, settled after it."""

    def reserve(self, role: str, tokens: int, money_usd: float) -> str:
        """Set aside what a call is estimated to cost; its name. Raises Exhausted when a cap has no room for it."""
        ...

    def settle(self, call: str, tokens: int, money_usd: float) -> None:
        """Charge what the call really cost, and give the rest back."""
        ...


@dataclass(frozen=True)
class Ask:
    """What a proposer is asked with: everything that it may depend on."""

    history: History
    run: int
    pool: Pool
    generator_at: Callable[[int], random.Random]
    """The generator for the answer at a position: resuming continues the sequence."""
    busy: Collection[str]
    """Paths that the pool's proposals in flight edit; code proposals stay serial per file."""
    purse: Purse | None = None
    """How to spend tokens and money; None where nothing may be spent."""
    ahead: int = 0
    """How many positions further it is asked than it has answered, where it may be asked several at once."""

    @functools.cached_property
    def rng(self) -> random.Random:
        return self.generator_at(self.position)

    @property
    def position(self) -> int:
        """How many answers this pool's proposer has given."""
        return self.history.runs[self.run].account(self.pool).asked + self.ahead

    @property
    def root(self) -> Node:
        return self.history[self.history.runs[self.run].root]

    @property
    def best(self) -> Node:
        """The best node of the pool; the baseline before there is another."""
        best = self.history.runs[self.run].account(self.pool).best
        return self.history[best] if best else self.root

    @property
    def nodes(self) -> Iterator[Node]:
        """The pool's nodes, oldest first, without the baseline."""
        return (node for node in self.history.nodes(self.run, self.pool) if node.id.parent)


class Proposer(Protocol):
    """Suggests the next experiment."""

    name: str

    async def propose(self, ask: Ask) -> Suggestion | None:
        """The next proposal; None when there is none until a trial in flight ends.

        A Refusal says that it had one that is no use, a Step that a ladder goes to another rung: both are
        recorded, and it is asked again. Raises Exhausted when there will never be another, Outage when a model
        that it needs cannot be had. A proposer with an attribute `width` may be asked so often at once; others are
        asked one question at a time.
        """
        ...


class Selector(Protocol):
    """Chooses which node the next change is made to."""

    def parent(self, ask: Ask) -> Node: ...


class Pruner(Protocol):
    """Recognises a doomed trial while it runs."""

    def doomed(self, curve: Curve, peers: Sequence[Curve]) -> str | None:
        """Why the trial should stop at its last point, or None. `peers` are completed trials."""
        ...


@dataclass(frozen=True, slots=True)
class Trial:
    """One bounded execution of a node."""

    node: Node
    root: Node
    """The baseline of the node's run: what the node's files are a change of."""
    number: int
    pool: Pool
    seed: int
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything on disk that one trial needs, made before it and gone after it."""

    mounts: tuple[Mount, ...]
    """What the benchmark sees."""
    inbox: Path
    """What the trial is told: shown read-only, grows while it runs."""
    outbox: Path
    """What the trial says: writable for it, so nothing in it can be trusted."""
    folder: Path
    """Where the node keeps what is worth keeping."""
    candidate: tuple[Mount, ...] = ()
    """What the candidate sees when it is apart from the benchmark."""


Staging = Callable[[Trial], AbstractContextManager[Stage]]

ReadCurve = Callable[[Node], tuple[Sequence[Row], Directions]]
"""The learning curve that a finished node left behind."""

OnMetrics = Callable[[Sequence[Row], Directions], str | None]
"""Takes the rows of the metrics stream so far; answers why the trial should stop, or None."""


class Executor(Protocol):
    """Runs trials, up to `width` at once."""

    width: int

    async def execute(self, trial: Trial, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:
        """Run one trial to its end; `cancel` ends it at once with Ending.CANCELLED.

        Raises SandboxError when the machinery failed, and Outage or Exhausted when a model that it needs could not
        be had or paid: that says nothing about the candidate.
        """
        ...


class Reviewer(Protocol):
    """Looks at a node that is about to be kept."""

    mode: str
    """What becomes of a node that it objects to: `flag` or `reject`."""

    async def review(self, trial: Trial, cancel: asyncio.Event) -> Outcome:
        """Finished: no objection. Refused: one, in the reason. Failed: no answer to go by. Cancelled: stopped.

        Raises Outage when its model cannot be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommittedFiles:
    commit: str
    tree: str


class Workspaces(Protocol):
    """The files of nodes: commits, branches and folders."""

    def commit(self, parent: Node, edits: Edits, message: str) -> CommittedFiles:
        """Record the parent's files with these edits as a commit."""
        ...

    def publish(self, node: Node, parent: Node | None) -> None:
        """Give a recorded node its branch and folder. Doing it again changes nothing."""
        ...

    def conclude(self, node: Node, history: History) -> None:
        """Write what was decided of a node into its folder."""
        ...

    def refusal(self, parent: Node, proposal: Proposal) -> str | None:
        """Why the proposal is not allowed, or None."""
        ...
