"""Messages between a driver and a worker: frames of JSON and bytes, and a trial as data in them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from loopty.domain.benchmark import Gate
from loopty.domain.declared_types import cut_words, misfit
from loopty.domain.errors import LooptyError
from loopty.domain.proposal import with_short_words
from loopty.domain.space import Value
from loopty.domain.task import Rig
from loopty.domain.trial import Outcome, Pool
from loopty.kit import codec
from loopty.kit.records import Record, field

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
        """Return a field that must be text."""
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
        # Never sent: only monotonic clocks of one process are compared.
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
        """Receive the next message. Raises LinkLost at the end of the connection, and for what is no message."""
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
            # On paper, beats of ten thousand connections take a tenth of a core; for more, a relay on each rack.
            await asyncio.sleep(lease_seconds / 4)


async def wait_for_silence(link: Link, lease_seconds: float) -> None:
    """Return when the other end was silent for this long, on the clock of this process alone."""
    late = 0
    while late < 2:  # twice: after a pause of this process, what arrived meanwhile has to be read first
        await asyncio.sleep(lease_seconds / 8)
        late = late + 1 if link.silent_seconds > lease_seconds else 0


# It says nothing about the rest of the run.


LONGEST_FILES = 256 << 20
"""The most bytes of files that a worker may send back for one trial."""
_MOST_FILES = 10_000
_LONGEST_NAME = 1_000


class RigPackage(Record):
    """What a worker needs before its first trial: how trials run, and the files that they change."""

    rig: Rig
    tree: str
    """The baseline's tree by content, as trials see it: hidden and held-out files are not in it."""
    run: int
    """Only to tell runs apart: each has its own baseline."""


class FileChange(Record):
    """One file of a node that differs from the baseline; its content is in the message's block."""

    path: str
    size: int = 0
    mode: str = ""
    """As in git; empty where the node has no such file."""


class WorkerOrder(Record):
    """One trial, as a worker gets it."""

    node: str
    number: int
    pool: Pool
    seed: int
    token: str
    slice: str = ""
    gates: tuple[Gate, ...] = ()
    params: Mapping[str, Value] = field(default_factory=dict)
    changes: tuple[FileChange, ...] = ()
    name: str = ""
    """Of the node, for what the worker says."""


class PackedOrder(Record):
    """An order with the content of its files, one after the other."""

    order: WorkerOrder
    block: bytes = b""


class TrialReport(Record):
    """How a trial ended on a worker, with the files that it left: logs, metrics, result, traces."""

    outcome: Outcome
    files: Mapping[str, bytes] = field(default_factory=dict)


def pack_report(report: TrialReport) -> tuple[dict[str, Any], bytes]:
    """Make the fields and the block of the message that carries a report."""
    sizes = [[name, len(content)] for name, content in report.files.items()]
    return {"outcome": codec.plain(report.outcome), "files": sizes}, b"".join(report.files.values())


def unpack_report(fields: Mapping[str, Any], block: bytes) -> TrialReport:
    """Read the report of a message. Raises LinkLost for one that no worker of ours sends."""
    try:
        outcome = with_short_words(codec.build(Outcome, fields["outcome"]))
        if fault := misfit(outcome):
            raise ValueError(fault)
        files = _split(fields.get("files", ()), block)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = cut_words(str(error), 200)
        raise LinkLost(f"the worker sent a report that cannot be read ({reason})") from None
    return TrialReport(outcome, files)


def _split(sizes: Sequence[Any], block: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    start = 0
    for name, size in sizes:
        if not isinstance(name, str) or type(size) is not int or not 0 <= size <= len(block) - start:
            raise ValueError("its files do not fit")
        if not _is_plain(name) or len(files) >= _MOST_FILES:
            raise ValueError(f"its file {name!r} has no plain name")
        files[name] = block[start : start + size]
        start += size
    if any(above in files for name in files for above in _folders(name)):
        raise ValueError("one of its files is a folder of another")
    return files


def _is_plain(name: str) -> bool:
    """Say whether a name leads to a file below a folder, and nowhere else."""
    parts = name.split("/")
    if len(name) > _LONGEST_NAME:
        return False
    return all(part not in ("", ".", "..") and "\0" not in part and len(part.encode()) < 256 for part in parts)


def _folders(name: str) -> list[str]:
    """List the folders that a file is in."""
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def message(value: Any) -> Any:
    """Return a value as it goes into a message."""
    return json.loads(codec.text(value))
