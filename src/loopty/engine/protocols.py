"""The parts that plug into the loop, as protocols. `loopty.testing` has conformance suites."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from loopty.domain.access import ObjectName
from loopty.domain.benchmark import Gate
from loopty.domain.ids import NodeId
from loopty.domain.launch import Mount
from loopty.domain.objective import Directions
from loopty.domain.proposal import Declared, Edits, Proposal, Suggestion
from loopty.domain.task_tables import NO_ANCHORS, Anchors
from loopty.domain.trial import Curve, Machine, Outcome, Pool, Row
from loopty.kit.records import Record, field
from loopty.kit.safe_folder import SafeFolder
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import Proposals
from loopty.record.verdicts import Incumbents

if TYPE_CHECKING:
    import asyncio


class Purse(Protocol):
    """How a proposer spends tokens and money: reserved before a call, settled after it."""

    def reserve(self, role: str, tokens: int, money_usd: float) -> str:
        """Reserve the estimated cost of a call; returns its name. Raises Exhausted when a cap is reached."""
        ...

    def settle(self, call: str, tokens: int, money_usd: float) -> None:
        """Charge what the call really cost, and return the rest."""
        ...

    def left(self, role: str) -> Mapping[str, float]:
        """Return what the role may still spend, as `tokens` and `money_usd`; without those that have no cap."""

    def record_settled(self) -> None:
        """Record what was charged, before it is recorded with the next decision."""
        ...


class Ask(Record, dict=True):
    """One question to a proposer, with everything that the answer may depend on."""

    history: History
    run: int
    pool: Pool
    generator_at: Callable[[int], random.Random]
    """The random generator for the answer at a position: resuming continues the sequence."""
    purse: Purse | None = None
    """How to spend tokens and money; None where nothing may be spent."""
    ahead: int = 0
    """Questions still unanswered, where a proposer may be asked several at once."""
    early: bool = False
    """Whether the answer has to wait, because all slots for trials are taken."""
    running: Collection[NodeId] = frozenset()
    """Nodes whose trials were running when the question was asked: it knows nothing of their results."""
    anchors: Anchors = NO_ANCHORS
    """What steers the choice of parents from outside the search."""

    @functools.cached_property
    def position(self) -> int:
        """Count the pool's answers so far, with those still expected, when this was first read."""
        return Proposals.of(self.history.runs[self.run], self.pool).answer_count + self.ahead

    @functools.cached_property
    def rng(self) -> random.Random:
        return self.generator_at(self.position)

    @property
    def root(self) -> Node:
        return self.history[self.history.runs[self.run].root]

    @property
    def best(self) -> Node:
        """Return the best node of the pool; the baseline before there is another."""
        best = Incumbents.of(self.history.runs[self.run], self.pool).best
        return self.history[best] if best else self.root

    @property
    def nodes(self) -> Iterator[Node]:
        """Yield the pool's nodes, oldest first, without the baseline."""
        return (node for node in self.history.nodes(self.run, self.pool) if node.id.parent)


class Proposer(Protocol):
    """Suggests the next experiment."""

    name: str

    async def propose(self, ask: Ask) -> Suggestion | None:
        """Return the next proposal; None when there is none until a running trial ends.

        A Refusal reports a proposal that cannot be used, a RungChange that a ladder goes to another rung,
        Directions what a reviewer would try: all are recorded, and it is asked again, as after a ProposerStall.
        Raises Exhausted when there will never be another, Outage when a model that it needs is unavailable.

        A proposer that waits for a model or an agent has an attribute `width`: how many questions it may be asked
        at once. It is asked while trials run, and its answers wait for a trial slot. A proposer without one is
        asked one question at a time, and only when a trial of the answer can start.
        """
        ...


class Selection(Record):
    """The node to change next, and why it was chosen."""

    node: Node
    reason: str
    operator: str = ""
    """The operator that the change must have; empty where any will do."""
    is_directed: bool = False
    """Whether the user named it: then no operator starts elsewhere."""


class Selector(Protocol):
    """Selects the node that the next proposal changes."""

    def select(self, ask: Ask) -> Selection: ...


class Pruner(Protocol):
    """Stops a trial that cannot become good."""

    def prune_reason(self, curve: Curve, peers: Sequence[Curve]) -> str | None:
        """Tell why the trial should stop at its last point, or None. `peers` are completed trials."""
        ...


class Trial(Record):
    """One bounded execution of a node."""

    node: Node
    root: Node
    """The baseline of the node's run: the node's files are a change to it."""
    number: int
    pool: Pool
    seed: int
    gates: tuple[Gate, ...] = ()
    token: str = field(default_factory=lambda: os.urandom(16).hex())
    """Names what the candidate may see of the trial, such as its folder: it tells neither node nor role."""
    slice: str = ""
    """What a tune trial measures instead of everything; empty for every other trial."""
    cohort: str = ""
    """The fingerprint of the machine that has to run it; empty where any machine may."""


class Stage(Record):
    """The folders and mounts of one trial, made before it and removed after it."""

    mounts: tuple[Mount, ...]
    """What the benchmark sees."""
    inbox: SafeFolder
    """Files for the trial: read-only for it, and they may grow while it runs."""
    outbox: SafeFolder
    """Files from the trial: it may write anything here, so nothing in it can be trusted."""
    folder: SafeFolder
    """Where the node keeps what is worth keeping."""
    candidate: tuple[Mount, ...] = ()
    """What the candidate sees when it runs apart from the benchmark."""
    empty_scratch: Callable[[], None] = lambda: None
    """Remove what the candidate has written so far."""
    empty_outbox: Callable[[], None] = lambda: None
    """Remove what is in the outbox: a stage of the cascade must leave nothing for the next one."""
    save_caches: Callable[[], None] | None = None
    """Keep what the trial built for later trials; None unless it is a trial of the baseline."""
    keep: Callable[[Mapping[str, bytes]], None] | None = None
    """Keeps small files for the node without making its folder; None where they belong there."""


MakeStage = Callable[[Trial], AbstractContextManager[Stage]]

ReadCurve = Callable[[Node], tuple[Sequence[Row], Directions]]
"""Reads the learning curve that a finished node left."""

OnMetrics = Callable[[Sequence[Row], Directions], str | None]
"""Called with the rows of the metrics stream so far; returns why the trial should stop, or None."""


class Executor(Protocol):
    """Runs trials, up to `width` at once, on a machine whose fingerprint is part of their outcomes."""

    @property
    def width(self) -> int: ...
    @property
    def machine(self) -> Machine: ...

    async def execute(self, trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        """Run one trial to its end; `cancel` ends it at once with Ending.CANCELLED.

        Raises SandboxError when the infrastructure failed, Outage or Exhausted when a model that the trial needs
        was unavailable or could not be paid: these say nothing about the candidate.
        """
        ...


class Reviewer(Protocol):
    """Looks at a node that is about to be kept."""

    mode: str
    """What happens to a node that the reviewer objects to: `flag` or `reject`."""

    async def review(self, trial: Trial, cancel: asyncio.Event) -> Outcome:
        """Review it. Finished: no objection. Refused: an objection, in the reason. Failed: no usable answer.

        Cancelled: stopped. Raises Outage when the verifier's model is unavailable.
        """
        ...


class CommittedFiles(Record):
    """The files of a node as a git commit and its tree."""

    commit: ObjectName
    tree: ObjectName
    declared: Declared = field(default_factory=dict)
    """The parameters that the program declares itself."""


class Workspaces(Protocol):
    """The files of nodes: commits, refs and folders."""

    def commit(self, parent: Node, edits: Edits, message: str) -> CommittedFiles:
        """Commit the parent's files with these edits."""
        ...

    def publish(self, node: Node, parent: Node | None) -> None:
        """Let git keep a recorded node's commit, before its trial. Again, it changes nothing."""
        ...

    def conclude(self, node: Node, history: History) -> None:
        """Keep what describes a node that got its verdict; what is kept for people is laid out for them."""
        ...

    def refusal(self, parent: Node, proposal: Proposal) -> str | None:
        """Tell why the proposal is not allowed, or None."""
        ...
