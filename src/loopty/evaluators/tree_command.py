"""Runs any command on a node's files, where its trial would run them; its output passes through as it comes."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO

from loopty.kit.records import Record

Write = Callable[[str], object]
_PERIOD_SECONDS = 0.05
_CHUNK_BYTES = 1 << 16


class TreeCommand(Record):
    """A command, and where its output goes."""

    argv: tuple[str, ...]
    write_stdout: Write
    write_stderr: Write
    seconds: float | None = None
    """None: the time of the benchmark."""


class TreeCommandEnd(Record):
    """How the command ended."""

    code: int
    stopped: str = ""
    """The limit that it reached, in words; empty when it ended by itself."""


class OutputFollower:
    """Passes on what a command appends to its two output files."""

    def __init__(self, command: TreeCommand, stdout: Path, stderr: Path) -> None:
        self._outputs = [_Output(stdout, command.write_stdout), _Output(stderr, command.write_stderr)]

    @contextlib.asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Pass it on as it comes while the context is open, and the rest at its end."""
        following = asyncio.create_task(self._pass_on_again_and_again())
        try:
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            self.pass_on(is_end=True)

    async def _pass_on_again_and_again(self) -> None:
        while True:
            self.pass_on()
            await asyncio.sleep(_PERIOD_SECONDS)

    def pass_on(self, is_end: bool = False) -> None:
        """Pass on what has come since the last time."""
        for output in self._outputs:
            output.pass_on(is_end)


class _Output:
    def __init__(self, path: Path, write: Write) -> None:
        self._path = path
        self._write = write
        self._file: IO[bytes] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def pass_on(self, is_end: bool) -> None:
        if self._file is None:
            with contextlib.suppress(FileNotFoundError):
                self._file = self._path.open("rb")
        while self._file and (chunk := self._file.read(_CHUNK_BYTES)):
            self._write(self._decoder.decode(chunk))
        if is_end:
            self._write(self._decoder.decode(b"", final=True))
            if self._file:
                self._file.close()
