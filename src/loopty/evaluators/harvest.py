"""What is kept of a trial: copied out of its reach, after it is dead, as far as it can be trusted."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from loopty.evaluators import strict
from loopty.evaluators.metrics_csv import LARGEST_STREAM
from loopty.evaluators.strict import Unreadable

_MOST_TRACES = 10_000
_LARGEST_TRACE = 1 << 20
_ALL_TRACES = 64 << 20


def kept(outbox: Path, folder: Path) -> None:
    """Copy the metrics stream and the traces into the node's folder."""
    with contextlib.suppress(Unreadable):
        if raw := strict.content(outbox / "metrics.csv", LARGEST_STREAM):
            published(folder / "metrics.csv", raw)
    left = _ALL_TRACES
    for trace in _traces(outbox / "traces"):
        with contextlib.suppress(Unreadable):
            raw = strict.content(trace, min(_LARGEST_TRACE, left)) or b""
            published(folder / "traces" / trace.name, raw)
            left -= len(raw)


def published(path: Path, raw: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)


def last_line(log: Path) -> str:
    """The last line that says something, for a one-line reason."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").strip().splitlines()
    printable = "".join(char if char.isprintable() else " " for char in lines[-1]) if lines else ""
    return printable.strip()[:200]


def _traces(folder: Path) -> list[Path]:
    if folder.is_symlink():  # the trial may have put a link there, to a directory that it could not read
        return []
    try:
        with os.scandir(folder) as found:
            names = [item.name for item, _ in zip(found, range(_MOST_TRACES), strict=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names) if name.startswith("task_") and name.endswith(".json")]
