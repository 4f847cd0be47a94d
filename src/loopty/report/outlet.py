"""An output stream that may disappear: a run outlives its terminal."""

from __future__ import annotations

from typing import TextIO


class Outlet:
    """Writes to a stream until that fails, then drops everything."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    def write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._stream = None
