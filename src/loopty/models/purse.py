"""How tokens and money are spent: reserved before a call, settled after it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from loopty.domain.errors import Crowded, Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.outcome import Pool
from loopty.domain.task import Pools, Roles
from loopty.engine import budget
from loopty.engine.budget import Price
from loopty.record.events import Event, CallReserved, CallSettled
from loopty.record.history import History
from loopty.record.recorder import Recorder


class Purse:
    """The tokens and the money of one run. A call in flight when its process dies is charged as reserved."""

    def __init__(self, scribe: Recorder, run: int, pools: Pools, owner: str, roles: Roles | None = None) -> None:
        self._scribe = scribe
        self._run = run
        self._pools = pools
        self._roles = roles or Roles()
        self._owner = owner

    def reserve(
        self,
        role: str,
        tokens: int,
        money_usd: float,
        worst: Price | None = None,
        model: str = "",
        operator: str = "",
        node: NodeId | None = None,
        pool: Pool | None = None,
    ) -> str:
        """Set aside what a call is estimated to cost; its name.

        `worst` is the most that it can cost, where that is more. Raises Exhausted when a cap has no room for it,
        and Crowded when there may be room once the calls in flight are settled.
        """
        call, price = uuid.uuid4().hex, Price(tokens, money_usd)
        most = worst or price

        def reserved(history: History) -> Sequence[Event]:
            run = history.runs[self._run]
            if reason := budget.unaffordable(run, self._pools, self._roles, role, price):
                raise Exhausted(reason)
            if reason := budget.crowded(run, self._pools, self._roles, role, price):
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
                )
            ]

        self._scribe.record(reserved)
        return call

    def left(self, role: str) -> Price:
        """What the role may still spend, calls in flight at their worst: infinite where there is no cap."""
        return budget.left(self._scribe.history.runs[self._run], self._pools, self._roles, role)

    def settle(
        self, call: str, tokens: int, money_usd: float, usage: Usage | None = None, failure: str = ""
    ) -> None:
        """Charge what the call really cost, and give the rest back."""
        self._scribe.record(lambda _: [CallSettled(self._run, call, tokens, money_usd, usage, failure)])
