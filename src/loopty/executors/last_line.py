"""The last line that a process wrote before it ended, which often says why."""

from __future__ import annotations

import asyncio
import contextlib


async def last_line(stream: asyncio.StreamReader) -> str:
    last = ""
    with contextlib.suppress(ValueError, OSError):
        while line := await stream.readline():
            last = line.decode(errors="replace").strip()[:500] or last
    return last
