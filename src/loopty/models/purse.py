"""Spends tokens and money of a run: reserved before a call, settled after it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from loopty.domain.declared_types import cut_words
from loopty.domain.errors import Crowded, Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.pool import Pool
from loopty.domain.role_spec import Roles
from loopty.domain.task import Pools
from loopty.models import spend_caps
from loopty.models.role_allocation import next_shares
from loopty.models.spend_caps import Price
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run

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
            run = history.runs[self._run]
            caps = run, self._pools, self._roles, role, price, operator == _REVIEW
            if reason := spend_caps.cap_refusal(*caps):
                raise Exhausted(reason)
            if reason := spend_caps.wait_reason(*caps):
                raise Crowded(reason)
            return [
                CallReserved(
                    self._run,
                    call,
                    role,
                    tokens,
                    money_usd,
                    self._owner,
                    model,
                    operator,
                    node,
                    pool,
                    most.tokens,
                    most.money_usd,
                    form,
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
        """What the role may still spend, with calls in flight at their maximum: infinite where there is no cap."""
        self.record_settled()
        run = self._recorder.history.runs[self._run]
        return spend_caps.remaining(run, self._pools, self._roles, role)

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
