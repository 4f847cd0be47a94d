"""The table of results: what was measured, loopty beside its peer, the ratio, the target and whether it is met."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cost import CommandFailed, Cost, Result

_HEADINGS = ("what", "loopty", "beside it", "ratio", "target", "met")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and its text; without a number, the text says why there is none."""

    words: str
    value: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """An upper limit for a figure."""

    words: str
    limit: float

    def is_met_by(self, value: float | None) -> bool:
        return value is not None and value <= self.limit


@dataclass(frozen=True, slots=True)
class Row:
    """One row. Its target applies to loopty's figure, or with `of_ratio` to loopty's figure over the peer's."""

    what: str
    loopty: Figure
    beside: Figure
    target: Target | None = None
    of_ratio: bool = False

    @property
    def ratio(self) -> float | None:
        if self.loopty.value is None or not self.beside.value:
            return None
        return self.loopty.value / self.beside.value

    @property
    def target_met(self) -> str:
        if self.target is None:
            return "-"
        if self.of_ratio and self.beside.value is None:
            return "unknown"
        return "yes" if self.target.is_met_by(self.ratio if self.of_ratio else self.loopty.value) else "NO"


NOTHING = Figure("-")
NO_PEER = Figure("peer not available")


def cpu(result: Result, who: str = "") -> Figure:
    """CPU milliseconds, with wall milliseconds in brackets; None means that the peer is not installed."""
    if result is None:
        return NO_PEER
    if isinstance(result, CommandFailed):
        return Figure(f"{who} failed".strip(), note=str(result))
    words = f"{who} {result.cpu_seconds * 1000:.4g} ms (wall {result.wall_seconds * 1000:.4g})"
    return Figure(words.strip(), result.cpu_seconds)


def growth(small: Result, large: Result, who: str = "") -> Figure:
    """The CPU of the large case as a multiple of the small case's."""
    if not isinstance(small, Cost):
        return cpu(small, who)
    if not isinstance(large, Cost):
        return cpu(large, who)
    value = large.cpu_seconds / small.cpu_seconds
    return Figure(f"{who} ×{value:.2f}".strip(), value)


def render_table(rows: Sequence[Row]) -> str:
    lines = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    notes = [f"{row.what}: {figure.note}" for row in rows for figure in (row.loopty, row.beside) if figure.note]
    return "\n".join([text[0], "-" * len(text[0]), *text[1:], *notes])


def save(rows: Sequence[Row], path: Path) -> None:
    """Write the rows and the machine they were measured on as JSON."""
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    lines = [asdict(row) | {"ratio": row.ratio, "met": row.target_met} for row in rows]
    path.write_text(json.dumps({"machine": machine, "rows": lines}, indent=2) + "\n")


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "-" if row.ratio is None else f"{row.ratio:.3f}"
    target = row.target.words if row.target else "-"
    return (row.what, row.loopty.words, row.beside.words, ratio, target, row.target_met)
