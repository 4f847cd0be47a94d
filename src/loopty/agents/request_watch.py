"""Notices that a model has not begun to answer, from the bytes on an agent's connections."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.launch import Connection

_SMALLEST_REQUEST = 256
"""Bytes. What is sent in answer to an answer is shorter: acknowledgements of HTTP/2 and TLS."""


class RequestWatch:
    """Watches the connections of one agent. It reads no clock, so that a test needs no time."""

    def __init__(self) -> None:
        self._last: Mapping[int, Connection] = {}
        self._sent: dict[int, int] = {}
        """What each connection has sent since something came back."""
        self._pending: dict[int, float] = {}
        """The connections with a request that nothing has come back for, and since when."""

    def unanswered_seconds(self, connections: Mapping[int, Connection] | None, now: float) -> float:
        """For how long the newest request has had no answer, not even its beginning; 0: it has, or there is none.

        Requests to a model have all that was said so far, so the connection that has sent most is meant: reports
        to others, which nobody may answer, are short.
        """
        for name, connection in (connections or {}).items():
            self._note(name, connection, now)
        self._last = connections or {}
        for gone in self._pending.keys() - self._last.keys():
            del self._pending[gone]
        largest = max(self._last, key=lambda name: self._last[name].sent, default=None)
        if largest is None:
            return 0.0
        is_connecting = not self._last[largest].sent
        since = min(self._pending.values(), default=None) if is_connecting else self._pending.get(largest)
        return now - since if since is not None else 0.0

    def _note(self, name: int, connection: Connection, now: float) -> None:
        before = self._last.get(name, Connection())
        has_come = connection.received > before.received
        sent = connection.sent - before.sent
        self._sent[name] = sent if has_come else self._sent.get(name, 0) + sent
        if has_come and not (connection.is_sent_last and self._sent[name] >= _SMALLEST_REQUEST):
            self._pending.pop(name, None)
            self._sent[name] = 0
            return
        is_request = connection.is_connecting or (sent > 0 and self._sent[name] >= _SMALLEST_REQUEST)
        if is_request and (has_come or name not in self._pending):
            self._pending[name] = now
