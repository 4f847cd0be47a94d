"""The evaluator's end of the channel to a candidate: bounded in bytes and in time."""

from __future__ import annotations

import select
import socket
import time

_CHUNK = 1 << 16


class ChannelClosed(Exception):  # noqa: N818 - it is what happened to the channel
    """The candidate's end of the channel is closed."""


class OverTime(Exception):  # noqa: N818
    """The candidate did not answer in time."""


class Deadline:
    """A moment so many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._moment = time.monotonic() + seconds

    def remaining_seconds(self) -> float:
        """The seconds until then; OverTime when there are none."""
        left = self._moment - time.monotonic()
        if left <= 0:
            raise OverTime
        return left


class Wire:
    """Sends and receives at once, so that neither side can block the other for good."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    def has_input(self) -> bool:
        """Whether there is something to receive, or the end of it, before anything was asked."""
        self._poll.modify(self._channel, select.POLLIN)
        return bool(self._poll.poll(0))

    def exchange(self, question: bytes, size: int, deadline: Deadline) -> bytes:
        """Send all of the question and receive exactly `size` bytes.

        Raises Closed when the candidate ends early, OverTime at the deadline.
        """
        answer = bytearray()
        left = memoryview(question)
        while left or len(answer) < size:
            left = self._send(left)
            chunk = self._receive(min(size - len(answer), _CHUNK)) if len(answer) < size else None
            if chunk == b"":
                raise ChannelClosed
            if chunk:
                answer += chunk
            elif left or len(answer) < size:
                self._wait(bool(left), len(answer) < size, deadline)
        return bytes(answer)

    def drain(self, question: bytes, limit: int, deadline: Deadline) -> bytes:
        """Send all of the question and its end, and receive up to the end of the answer.

        A candidate that stops listening is no fault. At most one byte more than `limit` is received.
        """
        answer = bytearray()
        left = memoryview(question)
        open_for_writing = True
        while len(answer) <= limit:
            if open_for_writing:
                try:
                    left = self._send(left)
                except ChannelClosed:
                    left = left[:0]
                if not left:
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
        """Tell the candidate that nothing more will come."""
        try:  # noqa: SIM105 - contextlib is slow to import
            self._channel.shutdown(socket.SHUT_WR)
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
        """What is there; None when nothing is, empty at the end."""
        try:
            return self._channel.recv(limit)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _wait(self, to_send: bool, to_receive: bool, deadline: Deadline) -> None:
        wanted = (select.POLLOUT if to_send else 0) | (select.POLLIN if to_receive else 0)
        self._poll.modify(self._channel, wanted)
        self._poll.poll(deadline.remaining_seconds() * 1000)
