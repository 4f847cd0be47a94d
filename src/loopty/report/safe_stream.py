"""The one way to a terminal: every character that loopty prints passes here, whoever wrote it."""

from __future__ import annotations

import io
from typing import TextIO

from loopty.report.control_codes import safe_text


class SafeStream(io.TextIOWrapper):
    """Shows hidden characters as visible escapes; only loopty's own colours and cursor moves stay codes."""

    def write(self, text: str) -> int:
        super().write(safe_text(text))
        return len(text)

    @classmethod
    def over(cls, stream: TextIO) -> TextIO:
        """A safe stream with the destination of this one."""
        if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, cls):
            return stream
        return cls(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
