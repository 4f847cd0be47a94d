"""How a proposer spends tokens and money: reserved before a call, settled after it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from loopty.core import budget
from loopty.core.errors import Exhausted
from loopty.core.events import Event, Reserved, Settled
from loopty.core.history import History
from loopty.core.scribe import Scribe
from loopty.core.task import Pools


class Purse:
    """The tokens and the money of one run. A call in flight when its process dies is charged as reserved."""

    def __init__(self, scribe: Scribe, run: int, pools: Pools, owner: str) -> None:
        self._scribe = scribe
        self._run = run
        self._pools = pools
        self._owner = owner

    def reserve(self, role: str, tokens: int, money_usd: float) -> str:
        """Set aside what a call may cost at the most; its name. Raises Exhausted when that is too much."""
        call = uuid.uuid4().hex

        def reserved(history: History) -> Sequence[Event]:
            if reason := budget.unaffordable(history.runs[self._run], self._pools, tokens, money_usd):
                raise Exhausted(reason)
            return [Reserved(self._run, call, role, tokens, money_usd, self._owner)]

        self._scribe.decide(reserved)
        return call

    def settle(self, call: str, tokens: int, money_usd: float) -> None:
        """Charge what the call really cost, and give the rest back."""
        self._scribe.decide(lambda _: [Settled(self._run, call, tokens, money_usd)])
