"""Model calls: what they cost, how often a reply was usable, and how the roles share the budget."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.proposal import Objection
from loopty.domain.trial import Pool
from loopty.kit.records import Record, field, replace
from loopty.record.fold import Event, Family, FoldState
from loopty.record.nodes import NodeAdded, ProposalRefused
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
    seconds: float = 0.0


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
        """Sum the tokens spent and reserved."""
        return sum(self.tokens.values()) + sum(call.tokens for call in self.reservations.values())

    @property
    def total_money_usd(self) -> float:
        """Sum the money spent and reserved."""
        return sum(self.money_usd.values()) + sum(call.money_usd for call in self.reservations.values())


def is_about_calls(event: Event) -> bool:
    """Say whether the event is about a model call: the call itself, or a proposal that calls may have made."""
    if isinstance(event, NodeAdded):
        return bool(event.calls)
    return isinstance(event, CallReserved | CallSettled | ProposalRefused)


def _reserve(state: FoldState, event: CallReserved, at: float) -> None:
    run = state.runs[event.run]
    reservation = Reservation(
        role=event.role,
        tokens=event.tokens,
        money_usd=event.money_usd,
        owner=event.owner,
        operator=event.operator,
        node=event.node,
        pool=event.pool,
        max_tokens=max(event.tokens, event.max_tokens),
        max_money_usd=max(event.money_usd, event.max_money_usd),
        since=at,
        model=event.model,
        form=event.form,
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
    seconds = 0.0 if event.lost else max(at - reservation.since, 0.0)
    if reservation.pool and not event.failure and not event.lost:
        reply = UnreadReply(
            reservation.pool,
            reservation.operator,
            reservation.node,
            model=reservation.model,
            form=reservation.form,
            tokens=event.tokens,
            money_usd=event.money_usd,
            seconds=seconds,
        )
        unread = {**unread, event.call: reply}
        unread = dict(list(unread.items())[-MAX_UNREAD:])
    role = reservation.role
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


CALLS = Family(
    (CallReserved, CallSettled),
    {
        CallReserved: _reserve,
        CallSettled: _settle,
        NodeAdded: _take_from_reply,
        ProposalRefused: _take_from_reply,
    },
)


# A reply that repeats what was tried, or the example in the prompt, is not usable.


_MOST_FORMS = 128
"""Models times forms: bounded, as all that the fold keeps."""


class FormCount(Record):
    """Replies in one form by one model."""

    asked: int = 0
    usable: int = 0

    def with_reply(self, usable: bool) -> FormCount:
        return FormCount(self.asked + 1, self.usable + usable)


class ReplyForms(RunPart):
    """What a run has learned about the forms of answers."""

    models: Mapping[str, Mapping[str, FormCount]] = field(default_factory=dict)
    """By model, then by form."""

    def of_model(self, model: str) -> Mapping[str, FormCount]:
        return self.models.get(model, {})

    def with_reply(self, model: str, form: str, usable: bool) -> ReplyForms:
        counts = self.of_model(model)
        if form not in counts and sum(map(len, self.models.values())) >= _MOST_FORMS:
            return self
        counts = {**counts, form: counts.get(form, FormCount()).with_reply(usable)}
        return replace(self, models={**self.models, model: counts})


def _count(state: FoldState, event: NodeAdded | ProposalRefused, _at: float) -> None:
    """Count the replies behind a proposal: those before the last one were not usable."""
    if not event.calls or event.index_in_reply:
        return
    run = state.runs[event.node.run if isinstance(event, NodeAdded) else event.run]
    unread, known = Spend.of(run).unread, ReplyForms.of(run)
    forms = known
    for call in event.calls:
        reply = unread.get(call)
        if reply and reply.form and not reply.taken:
            is_usable = isinstance(event, NodeAdded) or event.objection is Objection.OTHER
            forms = forms.with_reply(reply.model, reply.form, is_usable and call == event.calls[-1])
    if forms is not known:
        state.put_run(run.with_part(forms))


REPLY_FORMS = Family((), {NodeAdded: _count, ProposalRefused: _count})


class RoleFigures(Record):
    """What the roles of a run have done so far: sums, so that two of them show what happened between."""

    nodes: int = 0
    """Attempts that were proposed."""
    failed: int = 0
    """Attempts that did not finish."""
    pairs: int = 0
    """Verdicts that rest on pairs of measurements."""
    pairs_kept: int = 0
    """Those of them that kept a node."""
    looks: int = 0
    """Reviews."""
    objections: int = 0
    """Those of them in which the verifier objected."""


class RoleSharesChanged(Event):
    """The shares of the roles from here on, and the evidence for them."""

    run: int
    shares: Mapping[str, float]
    figures: RoleFigures
    reason: str


class RoleShares(RunPart):
    """The shares in force; empty before the first decision."""

    shares: Mapping[str, float] = field(default_factory=dict)
    figures: RoleFigures = RoleFigures()
    """What the last decision was based on."""
    reason: str = ""


def _change(state: FoldState, event: RoleSharesChanged, _at: float) -> None:
    part = RoleShares(event.shares, event.figures, event.reason)
    state.put_run(state.runs[event.run].with_part(part))


ROLE_SHARES = Family((RoleSharesChanged,), {RoleSharesChanged: _change})
