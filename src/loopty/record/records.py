"""What is known of runs and nodes: the records that the fold of the ledger is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopty.domain.evidence import median
from loopty.domain.gate_spec import Gate
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metrics, Objective
from loopty.domain.outcome import Effect, Outcome, Pool, Verdict
from loopty.domain.proposal import identity
from loopty.domain.space import Value
from loopty.kit.replace import replace
from loopty.record.account import Account

MOST_SAMPLES = 32
"""Of one node under one fingerprint; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A node measured against the incumbent, again and again; the pairs are in the order of measurement."""

    rival: NodeId
    noise: Mapping[str, float] = field(default_factory=dict)
    """How much the rival varied before the duel began, by metric."""
    mine: tuple[Metrics, ...] = ()
    theirs: tuple[Metrics, ...] = ()
    faults: int = 0
    """Measurements of the rival that gave no result, or one under another fingerprint."""

    @property
    def pairs(self) -> list[tuple[Metrics, Metrics]]:
        return list(zip(self.mine, self.theirs, strict=True))

    def whole(self) -> Pairing:
        """Without a half pair: after a break its halves would lie too far apart."""
        whole = min(len(self.mine), len(self.theirs))
        return replace(self, mine=self.mine[:whole], theirs=self.theirs[:whole])


@dataclass(frozen=True, slots=True)
class Result:
    """What a node gave under one fingerprint: the outcome, its metrics as medians of the samples."""

    outcome: Outcome
    samples: tuple[Metrics, ...] = ()

    def with_sample(self, metrics: Metrics) -> Result:
        samples = (*self.samples, metrics)[-MOST_SAMPLES:]
        middle = {name: median([sample[name] for sample in samples]) for name in metrics}
        return Result(replace(self.outcome, metrics={**self.outcome.metrics, **middle}), samples)


@dataclass(frozen=True, slots=True)
class Review:
    """What the verifier said of a node that the metric would keep."""

    passed: bool | None
    """None where it could not be asked or understood."""
    reason: str


@dataclass(frozen=True, slots=True)
class Node:
    """What is known of one node."""

    id: NodeId
    pool: Pool
    operator: str
    summary: str
    commit: str
    tree: str
    added_at: float
    order: int
    """1 for the first node of its run, in the order in which they were added."""
    position: int
    """How often its pool's proposer had been asked before."""
    turn: int = 0
    """How many of those answers were its operator's."""
    params: Mapping[str, Value] = field(default_factory=dict)
    draft: bool = False
    known_event: int = 0
    """The last event that its proposer knew of."""
    edits: tuple[str, ...] = ()
    """The paths that it changes in its parent."""
    children: int = 0
    trials: int = 0
    losses: int = 0
    losses_in_row: int = 0
    running: bool = False
    outcome: Outcome | None = None
    """Of the trial that decides; its metrics are the medians of the samples."""
    samples: tuple[Metrics, ...] = ()
    """The metrics that count, of each measurement under the outcome's fingerprint, newest last."""
    fault: Outcome | None = None
    """A repeated measurement of it that gave no result."""
    pairing: Pairing | None = None
    other_fingerprints: Mapping[str, Result] = field(default_factory=dict)
    """Results under other fingerprints than the outcome's."""
    effect: Effect | None = None
    verdict: Verdict | None = None
    reason: str = ""
    against: NodeId | None = None
    review: Review | None = None
    """What the verifier said of it."""
    inspirations: tuple[NodeId, ...] = ()
    calls: tuple[str, ...] = ()
    judged: int = 0
    """The number of the event that judged it."""

    @property
    def is_pending(self) -> bool:
        """Whether it waits for a trial."""
        return not (self.draft or self.running or self.verdict)

    def result(self, fingerprint: str) -> Result | None:
        """What it gave under this fingerprint."""
        if self.outcome and self.outcome.fingerprint == fingerprint:
            return Result(self.outcome, self.samples)
        return self.other_fingerprints.get(fingerprint)

    @property
    def identity(self) -> str:
        return identity(self.tree, self.params)


@dataclass(frozen=True, slots=True)
class RunningTrial:
    """A trial that is being executed."""

    pool: Pool
    owner: str
    since: float
    subject: NodeId | None = None
    """The node that is decided of, where that is not the one measured."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens and money reserved for a call in flight."""

    role: str
    tokens: int
    money_usd: float
    owner: str
    operator: str = ""
    node: NodeId | None = None
    pool: Pool | None = None
    max_tokens: float = 0
    max_money_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class UnreadReply:
    """A reply that was paid for and holds proposals that nobody has taken yet."""

    pool: Pool
    operator: str
    node: NodeId | None
    taken: tuple[int, ...] = ()
    """The proposals that were, in their order; others may be recorded before an earlier one."""
    size: int = 0
    """How many it holds; 0 before the first is taken."""


_NOTHING_YET = Account()


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of one run."""

    number: int
    criteria: str
    objective: Objective
    seed: int
    why: str
    started_at: float
    benchmark: str = ""
    data: str = ""
    criteria_parts: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    """Under which results are compared at present."""
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The facts behind each fingerprint."""
    floors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The noise of each metric by fingerprint: a standard deviation, 0 where nothing varied."""
    gates: Mapping[str, tuple[Gate, ...]] = field(default_factory=dict)
    """Gates by the node to which they were added."""
    undecided: tuple[NodeId, ...] = ()
    """Nodes that have a result and no verdict yet."""
    nodes: int = 0
    accounts: Mapping[str, Account] = field(default_factory=dict)
    flights: Mapping[str, RunningTrial] = field(default_factory=dict)
    """By trial: `node#number`."""
    holds: Mapping[str, Reservation] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Spent by role, calls in flight not counted."""
    money_usd: Mapping[str, float] = field(default_factory=dict)
    unread: Mapping[str, UnreadReply] = field(default_factory=dict)
    """By call."""
    stalls: int = 0
    stalled_seconds: float = 0.0
    directive: str = ""
    driver: str = ""
    """The process whose session drives the run, or empty."""
    session_from: float = 0.0
    seconds_before: float = 0.0
    seconds: float = 0.0
    ended: str = ""
    """Why the last session ended."""

    @property
    def root(self) -> NodeId:
        return NodeId(str(self.number))

    def gates_of(self, node: NodeId) -> tuple[Gate, ...]:
        """The gates added to the node and to those above it."""
        return tuple(gate for above, gates in self.gates.items() if node.is_within(above) for gate in gates)

    def account(self, pool: Pool) -> Account:
        return self.accounts.get(pool, _NOTHING_YET)

    def with_account(self, pool: Pool, account: Account) -> Run:
        return replace(self, accounts={**self.accounts, pool: account})


def trial_name(node: NodeId, number: int) -> str:
    return f"{node}#{number}"


def trial_parts(name: str) -> tuple[NodeId, int]:
    node, _, number = name.partition("#")
    return NodeId(node), int(number)
