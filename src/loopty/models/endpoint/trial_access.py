"""One trial's access to the model, and the failures that its candidate can be blamed for."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from loopty.domain.errors import Exhausted, LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.models.allowance import Allowance, AllowanceExceeded

_HEADERS = ("x-api-key", "x-goog-api-key")


class TrialAccess:
    """The trial sends a key of its own that is worth nothing elsewhere; loopty has the real key."""

    def __init__(self, model: str, allowance: Allowance) -> None:
        self.model = model
        """The name by which the trial asks for the model."""
        self._allowance = allowance
        self.open_requests = 0
        """Requests that are being answered."""
        self.key = f"loopty-{secrets.token_hex(16)}"
        """The trial's own key."""
        self.calls: list[str] = []
        """The names of its calls."""
        self.exhausted: Exhausted | None = None
        self.outage: Outage | None = None
        self.refusal = ""
        """Why the provider refused the last request itself, or empty."""
        self.allowance_exceeded: AllowanceExceeded | None = None
        """Why the candidate has failed, whatever the benchmark says: it asked for more than its allowance."""

    @property
    def tokens(self) -> int:
        """The tokens of its calls that have ended."""
        return self._allowance.spent_tokens

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the trial's key, in any header where a provider's clients send theirs."""
        keys = [headers.get(name, "") for name in _HEADERS]
        keys.append(headers.get("authorization", "").removeprefix("Bearer ").strip())
        return any(hmac.compare_digest(key.encode(), self.key.encode()) for key in keys)

    def excuse(self, finished: bool) -> LooptyError | None:
        """Why the trial says nothing about its node, or None.

        Once a cap is used up, not even a result counts: it was made with fewer calls than others had. An outage of
        the provider is something that a benchmark may have coped with.
        """
        return self.exhausted or (None if finished else self.outage)


ServeTrial = Callable[[NodeId, socket.socket], AbstractAsyncContextManager[TrialAccess]]
"""Serves the model to a trial of the node at a listening socket, until the block ends."""
