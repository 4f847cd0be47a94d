"""What the ledger remembers: typed, versioned, append-only.

To change an event: add fields with defaults, or give it a new kind. `decode` passes over fields that it does
not know, so an older loopty reads a newer ledger as far as it can.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from loopty.domain.errors import Misuse
from loopty.domain.gate_spec import Gate
from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.objective import Objective
from loopty.domain.outcome import Effect, Outcome, Pool, Verdict
from loopty.domain.proposal import Objection
from loopty.domain.space import Value
from loopty.kit import codec


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A new set of criteria; the first number of every id."""

    run: int
    criteria: str
    objective: Objective
    seed: int
    why: str
    benchmark: str = ""
    """Digest of the benchmark's files; part of the criteria."""
    data: str = ""
    """Digest of the benchmark's data outside the repository; part of the criteria."""
    criteria_parts: Mapping[str, str] = field(default_factory=dict)
    """The criteria part by part, to tell which of them changed."""


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A state of the code in the tree. A draft is still being edited and has no commit of its own yet."""

    node: NodeId
    pool: Pool
    operator: str
    summary: str
    commit: str
    tree: str
    params: Mapping[str, Value] = field(default_factory=dict)
    draft: bool = False
    known_event: int = 0
    """The last event that its proposer knew of."""
    edits: tuple[str, ...] = ()
    """The paths that it changes in its parent."""
    inspirations: tuple[NodeId, ...] = ()
    calls: tuple[str, ...] = ()
    """The calls of models that it took, the one that gave it last."""
    remaining_in_reply: int = 0
    """How many proposals of the last call come after it."""
    index_in_reply: int = 0
    """Which of the last call's proposals it is, from 0."""


@dataclass(frozen=True, slots=True)
class NodeSealed:
    """A draft's files were committed: from now on it is what it is."""

    node: NodeId
    commit: str
    tree: str


@dataclass(frozen=True, slots=True)
class ProposalRefused:
    """A proposal that was not worth or not allowed a trial. It costs no attempt."""

    run: int
    pool: Pool
    operator: str
    reason: str
    objection: Objection = Objection.OTHER
    calls: tuple[str, ...] = ()
    remaining_in_reply: int = 0
    index_in_reply: int = 0


@dataclass(frozen=True, slots=True)
class RungChanged:
    """The ladder of a pool went to another rung, and why."""

    run: int
    pool: Pool
    rung: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DirectiveSet:
    """What the user wants the models to know from here on; empty takes it back."""

    run: int
    text: str


@dataclass(frozen=True, slots=True)
class SessionStalled:
    """Nothing could be proposed or scored for a while, because a model could not be had."""

    run: int
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GateAdded:
    """A gate for a node and all that descends from it."""

    node: NodeId
    gate: Gate


@dataclass(frozen=True, slots=True)
class MachineSeen:
    """What stands behind a fingerprint."""

    run: int
    fingerprint: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """`subject` is the node that is decided of, where a repeated measurement of this one helps to."""

    node: NodeId
    number: int
    pool: Pool
    owner: str
    subject: NodeId | None = None
    incumbent: NodeId | None = None
    """The incumbent that the subject is measured against."""


@dataclass(frozen=True, slots=True)
class SplitShown:
    """A trial gets to see the held-out split, of which this is the digest."""

    node: NodeId
    number: int
    split: str


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """`lost`: the process that owned the trial died; nobody knows how it would have ended."""

    node: NodeId
    number: int
    outcome: Outcome
    lost: bool = False


@dataclass(frozen=True, slots=True)
class NodeJudged:
    node: NodeId
    verdict: Verdict
    reason: str
    against: NodeId | None = None
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class RunRebaselined:
    """From here on results are compared under this fingerprint, with this node as the first incumbent."""

    run: int
    fingerprint: str
    incumbent: NodeId


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """One process drives the run from here on."""

    run: int
    owner: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    run: int
    reason: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class CallReserved:
    """Tokens and money that are about to be spent: counted from here on."""

    run: int
    call: str
    role: str
    tokens: int
    money_usd: float
    owner: str
    model: str = ""
    operator: str = ""
    node: NodeId | None = None
    """What the call is about."""
    pool: Pool | None = None
    """The pool whose proposer asks, where the reply is to be a proposal."""
    max_tokens: float = 0
    """The most that the call can use."""
    max_money_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class CallSettled:
    """What a reserved call really cost."""

    run: int
    call: str
    tokens: int
    money_usd: float
    usage: Usage | None = None
    failure: str = ""
    """Why there was no reply."""
    lost: bool = False
    """The process that made the call died: charged as reserved."""


Event = (
    RunStarted
    | NodeAdded
    | NodeSealed
    | ProposalRefused
    | RungChanged
    | DirectiveSet
    | SessionStalled
    | GateAdded
    | MachineSeen
    | TrialStarted
    | SplitShown
    | TrialEnded
    | NodeJudged
    | RunRebaselined
    | SessionStarted
    | SessionEnded
    | CallReserved
    | CallSettled
)

_NAMES: dict[type[Event], str] = {
    cls: re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower() for cls in typing.get_args(Event)
}
"""`NodeAdded` is stored as `node-added`: an event is never renamed."""

_KINDS: dict[str, Callable[..., Event]] = {kind: cls for cls, kind in _NAMES.items()}


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its place in the ledger. `at` is seconds since the epoch."""

    number: int
    at: float
    event: Event


def encode(event: Event) -> tuple[str, str]:
    """The kind and the body of an event, as the ledger stores them."""
    return _NAMES[type(event)], codec.text(event)


def decode(kind: str, body: str) -> Event:
    if kind not in _KINDS:
        raise Misuse(f"the ledger holds '{kind}' events, which this loopty does not know: update loopty")
    return codec.build(_KINDS[kind], json.loads(body))
