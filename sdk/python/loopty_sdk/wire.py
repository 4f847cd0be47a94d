"""The benchmark's end of the channel to a candidate, limited in bytes and in time."""

from __future__ import annotations

import select
import time
from socket import SHUT_WR, socket

_CHUNK = 1 << 16


class ChannelClosed(Exception):  # noqa: N818 - the name says what happened to the channel
    """The candidate's end of the channel is closed."""


class OverTime(Exception):  # noqa: N818
    """The candidate did not answer in time."""


class Deadline:
    """A moment `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._moment = time.monotonic() + seconds

    def seconds_left(self) -> float:
        """The seconds until the deadline. Raises OverTime when it has passed."""
        remaining = self._moment - time.monotonic()
        if remaining <= 0:
            raise OverTime
        return remaining


class Wire:
    """Sends and receives at the same time, so that neither side can block the other for ever."""

    def __init__(self, channel: socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    def has_input(self) -> bool:
        """Whether bytes wait to be received, or the candidate has closed its end."""
        self._poll.modify(self._channel, select.POLLIN)
        return bool(self._poll.poll(0))

    def exchange(self, question: bytes, size: int, deadline: Deadline) -> bytes:
        """Send all of the question and receive exactly `size` bytes.

        Raises ChannelClosed when the candidate ends early, OverTime at the deadline.
        """
        answer = bytearray()
        unsent = memoryview(question)
        while unsent or len(answer) < size:
            unsent = self._send(unsent)
            chunk = self._receive(min(size - len(answer), _CHUNK)) if len(answer) < size else None
            if chunk == b"":
                raise ChannelClosed
            if chunk:
                answer += chunk
            elif unsent or len(answer) < size:
                self._wait(bool(unsent), len(answer) < size, deadline)
        return bytes(answer)

    def drain(self, question: bytes, limit: int, deadline: Deadline) -> bytes:
        """Send all of the question, close for sending, and receive until the candidate closes its end.

        A candidate may stop reading early. At most one byte more than `limit` is received. Raises OverTime.
        """
        answer = bytearray()
        unsent = memoryview(question)
        open_for_writing = True
        while len(answer) <= limit:
            if open_for_writing:
                try:
                    unsent = self._send(unsent)
                except ChannelClosed:
                    unsent = unsent[:0]
                if not unsent:
                    self.end_sending()
                    open_for_writing = False
            chunk = self._receive(min(limit + 1 - len(answer), _CHUNK))
            if chunk == b"":
                break
            if chunk:
                answer += chunk
            else:
                self._wait(open_for_writing, True, deadline)
        return bytes(answer)

    def end_sending(self) -> None:
        """Close the channel for sending: the candidate reads the end of its input."""
        try:  # noqa: SIM105 - contextlib is slow to import
            self._channel.shutdown(SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self._channel.close()

    def _send(self, unsent: memoryview) -> memoryview:
        if not unsent:
            return unsent
        try:
            return unsent[self._channel.send(unsent) :]
        except BlockingIOError:
            return unsent
        except OSError:
            raise ChannelClosed from None

    def _receive(self, limit: int) -> bytes | None:
        """The bytes that are there: None when there are none yet, empty when the candidate has closed its end."""
        try:
            return self._channel.recv(limit)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _wait(self, to_send: bool, to_receive: bool, deadline: Deadline) -> None:
        events = (select.POLLOUT if to_send else 0) | (select.POLLIN if to_receive else 0)
        self._poll.modify(self._channel, events)
        self._poll.poll(deadline.seconds_left() * 1000)
