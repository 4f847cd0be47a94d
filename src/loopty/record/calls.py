"""The family of calls: what model calls cost, and which of their replies still hold proposals."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.pool import Pool
from loopty.kit.records import Record, field, replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import ProposalRefused
from loopty.record.run_record import RunPart

MAX_UNREAD = 64
"""Unread replies that are remembered; older ones are dropped."""
STALLED = "stalled: "
"""How the failure of a call begins that a stalled coding agent made."""


class CallReserved(Event):
    """Tokens and money that a call is about to spend: they count from here on."""

    run: int
    call: str
    role: str
    tokens: int
    money_usd: float
    owner: str
    model: str = ""
    operator: str = ""
    node: NodeId | None = None
    """The node that the call is about."""
    pool: Pool | None = None
    """The pool whose proposer asks, where the reply should hold a proposal."""
    max_tokens: float = 0
    """The most that the call can use."""
    max_money_usd: float = 0.0
    form: str = ""
    """The form of answer that is asked for, where there are several."""


class CallSettled(Event):
    """What a reserved call really cost."""

    run: int
    call: str
    tokens: int
    money_usd: float
    usage: Usage | None = None
    failure: str = ""
    """Why there was no reply."""
    lost: bool = False
    """The process that made the call died: the call is charged as reserved."""


class Reservation(Record):
    """Tokens and money reserved for a call that has not ended."""

    role: str
    tokens: int
    money_usd: float
    owner: str
    operator: str = ""
    node: NodeId | None = None
    pool: Pool | None = None
    max_tokens: float = 0
    max_money_usd: float = 0.0
    since: float = 0.0
    model: str = ""
    form: str = ""


class UnreadReply(Record):
    """A paid reply with proposals that nobody has taken yet."""

    pool: Pool
    operator: str
    node: NodeId | None
    taken: tuple[int, ...] = ()
    """Indices of the proposals that were taken, in order; a later one may be recorded before an earlier one."""
    size: int = 0
    """How many proposals the reply holds; 0 before the first is taken."""
    model: str = ""
    form: str = ""
    tokens: int = 0
    money_usd: float = 0.0


class Spend(RunPart):
    """What models have cost a run."""

    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    """By call."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Spent by role, without reservations."""
    money_usd: Mapping[str, float] = field(default_factory=dict)
    unread: Mapping[str, UnreadReply] = field(default_factory=dict)
    """By call."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long calls took, by role, summed over parallel calls; without those whose process died."""

    @property
    def total_tokens(self) -> int:
        """Tokens spent and reserved."""
        return sum(self.tokens.values()) + sum(call.tokens for call in self.reservations.values())

    @property
    def total_money_usd(self) -> float:
        """Money spent and reserved."""
        return sum(self.money_usd.values()) + sum(call.money_usd for call in self.reservations.values())


def is_about_calls(event: Event) -> bool:
    """Whether the event is about a model call: the call itself, or a proposal that calls may have made."""
    if isinstance(event, NodeAdded):
        return bool(event.calls)
    return isinstance(event, CallReserved | CallSettled | ProposalRefused)


def _reserve(state: FoldState, event: CallReserved, at: float) -> None:
    run = state.runs[event.run]
    reservation = Reservation(
        event.role,
        event.tokens,
        event.money_usd,
        event.owner,
        event.operator,
        event.node,
        event.pool,
        max(event.tokens, event.max_tokens),
        max(event.money_usd, event.max_money_usd),
        at,
        event.model,
        event.form,
    )
    spend = Spend.of(run)
    spend = replace(spend, reservations={**spend.reservations, event.call: reservation})
    state.put_run(run.with_part(spend))


def _settle(state: FoldState, event: CallSettled, at: float) -> None:
    run = state.runs[event.run]
    spend = Spend.of(run)
    if event.call not in spend.reservations:
        return  # its process was taken for dead, and the call was charged as reserved
    reservations = dict(spend.reservations)
    reservation = reservations.pop(event.call)
    unread = spend.unread
    if reservation.pool and not event.failure and not event.lost:
        reply = UnreadReply(
            reservation.pool,
            reservation.operator,
            reservation.node,
            model=reservation.model,
            form=reservation.form,
            tokens=event.tokens,
            money_usd=event.money_usd,
        )
        unread = {**unread, event.call: reply}
        unread = dict(list(unread.items())[-MAX_UNREAD:])
    role = reservation.role
    seconds = 0.0 if event.lost else max(at - reservation.since, 0.0)
    spend = Spend(
        reservations,
        {**spend.tokens, role: spend.tokens.get(role, 0) + event.tokens},
        {**spend.money_usd, role: spend.money_usd.get(role, 0.0) + event.money_usd},
        unread,
        {**spend.seconds, role: round(spend.seconds.get(role, 0.0) + seconds, 6)},
    )
    state.put_run(run.with_part(spend))


def _take_from_reply(state: FoldState, event: NodeAdded | ProposalRefused, _at: float) -> None:
    """Mark the proposal as taken from the reply of its last call; the replies before it are done with."""
    if not event.calls:
        return
    run = state.runs[event.node.run if isinstance(event, NodeAdded) else event.run]
    spend = Spend.of(run)
    *earlier, last = event.calls
    unread = {call: reply for call, reply in spend.unread.items() if call not in earlier}
    reply = unread.pop(last, None)
    if reply:
        taken = {event.index_in_reply, *reply.taken}
        size = event.index_in_reply + event.remaining_in_reply + 1
        if len(taken) < size:
            unread[last] = replace(reply, taken=tuple(sorted(taken)), size=size)
    state.put_run(run.with_part(replace(spend, unread=unread)))


FAMILY = Family(
    (CallReserved, CallSettled),
    {
        CallReserved: _reserve,
        CallSettled: _settle,
        NodeAdded: _take_from_reply,
        ProposalRefused: _take_from_reply,
    },
)
