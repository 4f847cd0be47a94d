"""Spends tokens and money of a run within its caps: reserved before a call, settled after it; shares of roles move
by what they brought.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from loopty.domain.declared_types import cut_words
from loopty.domain.errors import Crowded, Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import Role, Roles, Usage
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Pool
from loopty.kit.records import Record
from loopty.record.calls import (
    CallReserved,
    CallSettled,
    Reservation,
    RoleFigures,
    RoleShares,
    RoleSharesChanged,
    Spend,
)
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.nodes import Proposals
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.sessions import pools_in_force
from loopty.record.trials import TrialCounts
from loopty.record.verdicts import Incumbents, Reviews

_REVIEW = "review"
"""The operator of the verifier's calls about winners, which no share holds up."""


class RunPurse:
    """The tokens and the money of one run. A call whose process dies is charged as reserved."""

    def __init__(self, recorder: Recorder, run: int, pools: Pools, owner: str, roles: Roles | None = None) -> None:
        self._recorder = recorder
        self._run = run
        self._pools = pools
        self._roles = roles or Roles()
        self._owner = owner

    async def wait_for_ledger(self) -> None:
        """Wait while the ledger is away, before a reservation or a settlement: other calls go on meanwhile."""
        await self._recorder.wait_for_ledger()

    def reserve(
        self,
        role: str,
        tokens: int,
        money_usd: float,
        maximum: Price | None = None,
        model: str = "",
        operator: str = "",
        node: NodeId | None = None,
        pool: Pool | None = None,
        form: str = "",
    ) -> str:
        """Reserve the estimated cost of a call; returns the call's name.

        `maximum` is the most that the call can cost, where that is more. Raises Exhausted when a cap has no room
        for it, and Crowded when there may be room once the calls in flight are settled.
        """
        call, price = os.urandom(16).hex(), Price(tokens, money_usd)
        most = maximum or price

        def decide(history: History) -> Sequence[Event]:
            # Decided under the ledger's write lock, so the caps hold across processes.
            run = history.runs[self._run]
            caps = run, self._pools, self._roles, role, price, operator == _REVIEW
            if reason := cap_refusal(*caps):
                raise Exhausted(reason)
            if reason := wait_reason(*caps):
                raise Crowded(reason)
            return [
                CallReserved(
                    run=self._run,
                    call=call,
                    role=role,
                    tokens=tokens,
                    money_usd=money_usd,
                    owner=self._owner,
                    model=model,
                    operator=operator,
                    node=node,
                    pool=pool,
                    max_tokens=most.tokens,
                    max_money_usd=most.money_usd,
                    form=form,
                )
            ]

        self._move_shares()
        self._recorder.record(decide)
        return call

    def _move_shares(self) -> None:
        """Record the decision about the shares of the roles that is due: the next calls are bound to it."""
        if self._roles.allocation == "adaptive":
            self._recorder.record(lambda history: _due_shares(history.runs[self._run], self._roles))

    def remaining(self, role: str) -> Price:
        """Return what the role may still spend, with calls in flight at their maximum; infinite without a cap."""
        self.record_settled()
        run = self._recorder.history.runs[self._run]
        return remaining(run, self._pools, self._roles, role)

    def left(self, role: str) -> dict[str, float]:
        """Return what the role may still spend, as `tokens` and `money_usd`; without those that have no cap."""
        rest = self.remaining(role)
        found = {"tokens": rest.tokens, "money_usd": rest.money_usd}
        return {name: max(amount, 0.0) for name, amount in found.items() if not math.isinf(amount)}

    def settle(
        self,
        call: str,
        tokens: int,
        money_usd: float,
        usage: Usage | None = None,
        failure: str = "",
        and_then: Sequence[Event] = (),
    ) -> None:
        """Charge what the call really cost, and return the rest; `and_then` is recorded in the same step.

        Until it is recorded, with what comes of the reply, the call counts as reserved, which is more.
        """
        settled = CallSettled(self._run, call, tokens, money_usd, usage, cut_words(failure))
        if and_then:
            self._recorder.record(lambda _: [settled, *and_then])
        else:
            self._recorder.record_soon(settled)

    def record_settled(self) -> None:
        """Record what was charged, before it is recorded with the next decision."""
        self._recorder.record_waiting()


def _due_shares(run: Run, roles: Roles) -> Sequence[Event]:
    decision = next_shares(run, roles)
    return [decision] if decision else []


class Price(Record):
    """Tokens and money."""

    tokens: float
    money_usd: float


class _Cap(Record):
    """One limit, and how much of it is used."""

    scope: str
    """Ends a sentence: empty for the run, else ` for the evolver`."""
    table: str
    """Where the task file sets the limit."""
    limit: Price
    used: Price


def cap_refusal(
    run: Run, pools: Pools, roles: Roles, role: str, call: Price, is_review: bool = False
) -> str | None:
    """Say why a call of this estimated cost may never start, or None: past spending leaves no room for it.

    A review of a winner (`is_review`) is not bound to the share of its role.
    """
    for cap in _caps(run, pools, roles, role, lambda _: Price(0, 0.0), is_review):
        if cap.used.tokens + call.tokens > cap.limit.tokens:
            limit = f"{cap.limit.tokens:.0f}{cap.scope} (tokens of [{cap.table}])"
            return f"{call.tokens:.0f} more tokens would pass the limit of {limit}"
        if cap.used.money_usd + call.money_usd > cap.limit.money_usd:
            limit = f"${cap.limit.money_usd:.2f}{cap.scope} (money_usd of [{cap.table}])"
            return f"${call.money_usd:.4f} more would pass the limit of {limit}"
    return None


def wait_reason(
    run: Run, pools: Pools, roles: Roles, role: str, call: Price, is_review: bool = False
) -> str | None:
    """Say why a call may not start yet, or return None.

    Calls in flight count at their maximum, and the new one at its estimate. So only the last call's real cost
    above its own estimate can ever pass a cap, whatever the width.
    """
    # The new one at its estimate: worst cases alone would leave most of every cap unused.
    for cap in _caps(run, pools, roles, role, _maximum, is_review):
        over_tokens = cap.used.tokens + call.tokens > cap.limit.tokens
        if over_tokens or cap.used.money_usd + call.money_usd > cap.limit.money_usd:
            return f"calls in flight may need the rest of the limit{cap.scope}"
    return None


def remaining(run: Run, pools: Pools, roles: Roles, role: str) -> Price:
    """Compute what the role may still spend, with calls in flight at their maximum."""
    rests = [
        Price(cap.limit.tokens - cap.used.tokens, cap.limit.money_usd - cap.used.money_usd)
        for cap in _caps(run, pools, roles, role, _maximum)
    ]
    return Price(min(rest.tokens for rest in rests), min(rest.money_usd for rest in rests))


def _maximum(reservation: Reservation) -> Price:
    return Price(reservation.max_tokens, reservation.max_money_usd)


def _caps(
    run: Run,
    pools: Pools,
    roles: Roles,
    role: str,
    price_of: Callable[[Reservation], Price],
    is_review: bool = False,
) -> Iterator[_Cap]:
    """Yield the run's limit, the role's and its share of the run's; `price_of` says what calls in flight cost."""
    spend, budget, pools = Spend.of(run), roles.of(role), pools_in_force(run, pools)
    in_flight = [(call.role, price_of(call)) for call in spend.reservations.values()]
    yield _Cap(
        "",
        "budget",
        _limit(pools.tokens, pools.money_usd),
        Price(
            sum(spend.tokens.values()) + sum(price.tokens for _, price in in_flight),
            sum(spend.money_usd.values()) + sum(price.money_usd for _, price in in_flight),
        ),
    )
    own = [price for name, price in in_flight if name == role]
    used = Price(
        spend.tokens.get(role, 0) + sum(price.tokens for price in own),
        spend.money_usd.get(role, 0.0) + sum(price.money_usd for price in own),
    )
    yield _Cap(f" for the {role}", f"roles.{role}", _limit(budget.tokens, budget.money_usd), used)
    share = (RoleShares.of(run).shares or roles.shares).get(role) if roles.shares else None
    if share is not None and not is_review:
        whole = _limit(pools.tokens, pools.money_usd)
        limit = Price(share * whole.tokens, share * whole.money_usd)
        yield _Cap(f" for the {role}, {100 * share:.0f} % of the run's", "budget", limit, used)


def _limit(tokens: int | None, money_usd: float | None) -> Price:
    return Price(math.inf if tokens is None else tokens, math.inf if money_usd is None else money_usd)


# A decision follows from the record alone, so a resumed run decides the same. It is made every few nodes, when a
# call is reserved, and recorded with its evidence.


WINDOW = 8
"""Nodes between two decisions."""
_STEP = 1.25
_LEAST, _MOST = 0.5, 1.5
"""How far a share may move from the one that is stated."""
_STRUGGLE = 0.5
"""From this share of failed trials on, evolution is funded although nothing was gained."""
_FAILURES = (Ending.FAILED, Ending.TIMED_OUT, Ending.REFUSED)


def next_shares(run: Run, roles: Roles) -> RoleSharesChanged | None:
    """Make the decision that is due now, or return None."""
    if roles.allocation != "adaptive":
        return None
    known, now = RoleShares.of(run), role_figures(run)
    window = now.nodes - known.figures.nodes
    if window < WINDOW:
        return None
    is_improved = Incumbents.of(run, Pool.ATTEMPT).since_best < window
    struggle = (now.failed - known.figures.failed) / window
    pairs, kept = now.pairs - known.figures.pairs, now.pairs_kept - known.figures.pairs_kept
    moves = {
        Role.EVOLVER: _STEP if is_improved or struggle >= _STRUGGLE else 1 / _STEP,
        Role.USER: _STEP if pairs else 1 / _STEP,
        Role.VERIFIER: _STEP if look_worth(now) >= 0.5 else 1 / _STEP,
    }
    shares = _moved(known.shares or roles.shares, roles.shares, moves)
    spent = Spend.of(run).tokens.get(Role.EVOLVER, 0)
    reason = (
        f"of {window} nodes {'one became' if is_improved else 'none became'} the best and {100 * struggle:.0f} % "
        f"failed, after {spent:,} tokens of the evolver; {pairs} were measured in pairs, {kept} of them kept; the "
        f"verifier objected in {now.objections} of {now.looks} looks"
    )
    return RoleSharesChanged(run.number, shares, now, reason)


def role_figures(run: Run) -> RoleFigures:
    """Count what the roles have done so far."""
    proposals, incumbents = Proposals.of(run, Pool.ATTEMPT), Incumbents.of(run, Pool.ATTEMPT)
    endings = TrialCounts.of(run, Pool.ATTEMPT).endings
    return RoleFigures(
        proposals.nodes,
        sum(endings.get(ending, 0) for ending in _FAILURES),
        incumbents.compared,
        incumbents.kept,
        TrialCounts.of(run, Pool.REVIEW).started,
        Reviews.of(run, Pool.ATTEMPT).rejected_by_verifier,
    )


def look_worth(figures: RoleFigures) -> float:
    """Estimate how often a look of the verifier finds something: 0.5 at first, less while it has none."""
    return (1 + 4 * figures.objections) / (2 + figures.looks)


def _moved(
    shares: Mapping[str, float], stated: Mapping[str, float], moves: Mapping[Role, float]
) -> Mapping[str, float]:
    """Move each share by a step, near the stated ones and with the same sum."""
    near = {
        role: min(max(shares.get(role, share) * moves[Role(role)], _LEAST * share), _MOST * share)
        for role, share in stated.items()
    }
    total = sum(near.values())
    return {role: round(share * sum(stated.values()) / total, 4) for role, share in near.items()} if total else {}
