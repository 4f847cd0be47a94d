"""How one trial reaches the model, and what of that it can be blamed for."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from loopty.domain.errors import Exhausted, LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.models.allowance import AllowanceExceeded

_HEADERS = ("x-api-key", "x-goog-api-key")


class TrialAccess:
    """The trial says a word that is its own and worth nothing elsewhere; loopty has the key."""

    def __init__(self, model: str) -> None:
        self.model = model
        """What the trial may call it."""
        self.key = f"loopty-{secrets.token_hex(16)}"
        """What the trial says instead of a key."""
        self.exhausted: Exhausted | None = None
        self.outage: Outage | None = None
        self.refusal = ""
        """Why the provider refused the last request for what it was; empty where it did not."""
        self.allowance_exceeded: AllowanceExceeded | None = None
        """Why the candidate has failed, whatever the benchmark says: it wanted more of the model than one may."""

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether a request says the word, where the clients of any provider say their key."""
        said = [headers.get(name, "") for name in _HEADERS]
        said.append(headers.get("authorization", "").removeprefix("Bearer ").strip())
        return any(hmac.compare_digest(word.encode(), self.key.encode()) for word in said)

    def excuse(self, finished: bool) -> LooptyError | None:
        """Why the trial says nothing of its node, or None.

        After a spent cap not even a result counts: it was made with less of the model than others had. With a
        provider that was down a benchmark may have coped.
        """
        return self.exhausted or (None if finished else self.outage)


ServeTrial = Callable[[NodeId, socket.socket], AbstractAsyncContextManager[TrialAccess]]
"""Serves a trial of the node at a listening socket, until the block ends."""
