"""Frames: messages between a driver and a worker, each an object of JSON and a block of bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import time
from collections.abc import Mapping
from typing import Any

from loopty.domain.errors import LooptyError
from loopty.kit.records import Record

_SIZES = struct.Struct("!II")
_CHUNK = 1 << 16
SHORT = 1 << 16
"""The most bytes of a frame from somebody who has not said who it is."""
LONGEST_HEAD = 4 << 20
LONGEST_BLOCK = (1 << 32) - 1


class LinkLost(LooptyError):  # noqa: N818 - named after what happened
    """The other end is gone, or does not speak this protocol."""


class Frame(Record):
    """One message."""

    kind: str
    fields: Mapping[str, Any]
    block: bytes = b""

    def text(self, name: str) -> str:
        """A field that must be text."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise LinkLost(f"the message {self.kind!r} has no {name}")
        return value


class Link:
    """A connection that carries frames. Every byte that arrives is a sign of life."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self.heard_at = time.monotonic()
        """When the last bytes arrived, on the clock of this process."""

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self.heard_at

    async def send(self, kind: str, block: bytes = b"", **fields: Any) -> None:
        """Send one message. Raises LinkLost."""
        head = json.dumps({"kind": kind, **fields}, separators=(",", ":"), allow_nan=False).encode()
        try:
            async with self._turn:
                self._writer.write(_SIZES.pack(len(head), len(block)) + head)
                for start in range(0, len(block), _CHUNK):
                    self._writer.write(block[start : start + _CHUNK])
                    await self._writer.drain()
                await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise LinkLost(f"the connection broke ({error or type(error).__name__})") from None

    async def receive(self, longest_block: int = 0, longest_head: int = SHORT) -> Frame:
        """The next message. Raises LinkLost at the end of the connection, and for what is no message."""
        head_size, block_size = _SIZES.unpack(await self._read(_SIZES.size))
        if head_size > longest_head or block_size > longest_block:
            raise LinkLost(f"a message of {head_size + block_size} bytes is too long")
        head, block = await self._read(head_size), await self._read(block_size)
        try:
            fields = json.loads(head)
            if b"\\ud" in head.lower():  # half a character, perhaps, which no file and no ledger can hold
                json.dumps(fields, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise LinkLost("what arrived is no message") from None
        if not isinstance(fields, dict) or not isinstance(fields.get("kind"), str):
            raise LinkLost("what arrived is no message")
        return Frame(fields.pop("kind"), fields, block)

    async def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = await self._reader.read(min(_CHUNK, size - len(parts)))
            except OSError as error:
                raise LinkLost(f"the connection broke ({error or type(error).__name__})") from None
            if not part:
                raise LinkLost("the other end closed the connection")
            self.heard_at = time.monotonic()
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Close the connection at once: what has not been sent is lost."""
        if not self._writer.transport.is_closing():
            self._writer.transport.abort()


async def send_beats(link: Link, lease_seconds: float) -> None:
    """Show the other end that this one lives, until the connection breaks."""
    with contextlib.suppress(LinkLost):
        while True:
            await link.send("beat")
            await asyncio.sleep(lease_seconds / 4)


async def wait_for_silence(link: Link, lease_seconds: float) -> None:
    """Return when the other end was silent for this long, on the clock of this process alone."""
    late = 0
    while late < 2:  # twice: after a pause of this process, what arrived meanwhile has to be read first
        await asyncio.sleep(lease_seconds / 8)
        late = late + 1 if link.silent_seconds > lease_seconds else 0
