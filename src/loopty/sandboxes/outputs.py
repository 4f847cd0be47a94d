"""Copy the output of a process tree into two files, up to one bound for both together."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from loopty.domain.launch import SandboxError

_CHUNK_BYTES = 1 << 16


class Outputs:
    """Two pipes of a running tree, read as they fill. `on_flood` is called when the bound is exceeded."""

    def __init__(
        self, pipes: dict[int, Path], limit: int, on_flood: Callable[[], None], keeps_empty: bool = True
    ) -> None:
        """What was in the files is removed. They are made at once, or with their folder at their first byte."""
        self._remaining = limit
        self._on_flood = on_flood
        self._failure: OSError | None = None
        self._paths = pipes
        self._files: dict[int, int] = {}
        loop = asyncio.get_running_loop()
        for pipe, path in pipes.items():
            try:
                if keeps_empty:
                    self._file(pipe)
                else:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)  # noqa: PTH108 - pathlib takes longer than the call
            except OSError as error:
                self.close()
                raise SandboxError(f"cannot write {path}: {error.strerror}") from error
            os.set_blocking(pipe, False)
            loop.add_reader(pipe, self._copy, pipe)

    def drain(self) -> None:
        """Copy what is left in the pipes once the tree is dead. Raises SandboxError when any copy failed."""
        for pipe in self._paths:
            while self._copy(pipe):
                pass
        if self._failure is not None:
            raise SandboxError(f"cannot write the output of a trial: {self._failure.strerror}") from self._failure

    def close(self) -> None:
        """Stop reading."""
        loop = asyncio.get_running_loop()
        for pipe in self._paths:
            loop.remove_reader(pipe)
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _file(self, pipe: int) -> int:
        """The file of a pipe, opened."""
        if pipe not in self._files:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            path = self._paths[pipe]
            try:
                self._files[pipe] = os.open(path, flags, 0o644)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._files[pipe] = os.open(path, flags, 0o644)
        return self._files[pipe]

    def _copy(self, pipe: int) -> bool:
        """Copy one chunk; false when the pipe is empty for now or closed."""
        try:
            chunk = os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            asyncio.get_running_loop().remove_reader(pipe)
            return False
        try:
            self._write(self._file(pipe), memoryview(chunk))
        except OSError as error:
            self._failure = error
            self._on_flood()
        return True

    def _write(self, file: int, chunk: memoryview) -> None:
        part = chunk[: self._remaining]
        self._remaining -= len(part)
        if len(part) < len(chunk):
            self._on_flood()
        while part:
            part = part[os.write(file, part) :]
