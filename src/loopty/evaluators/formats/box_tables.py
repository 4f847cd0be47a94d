"""Tables that benchmarks draw with lines: `console.table` of Node, and Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_NAME = re.compile(r"(?:task ?)?name|benchmark|task|bench|test|library|case", re.IGNORECASE)
_UNIT = re.compile(r"\(([^()]{1,20})\)\s*$|(?:^|\s)([^\W\d_]{1,12}/[^\W\d_]{1,12})\s*$")
_ORDER = ("latency med", "latency", "average time", "mean", "avg", "throughput med", "throughput", "ops/s", "")
"""Which column counts, by how its heading begins, if several have a unit: a time before a rate."""
_BARS = ("│", "|", "║")
_NUMBER = re.compile(r"[\d,_]*\.?\d+")
_ASIDE = re.compile(r"margin|rme|error|err|±|samples|total|min|max|p\d\d|variance|dev", re.IGNORECASE)


def box_rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the number and the unit of each row of the tables in this text."""
    columns: tuple[int, int, str] | None = None
    for line in text.splitlines():
        cells = _cells(line)
        if cells is None:
            columns = None if not line.strip().startswith(("┌", "├", "└", "+", "╟", "╔")) else columns
        elif found := _columns(cells):
            columns = found
        elif columns and len(cells) > max(columns[:2]):
            name, number = cells[columns[0]], _NUMBER.match(cells[columns[1]])
            if name and number:
                yield name, number[0], columns[2]


def _cells(line: str) -> list[str] | None:
    """Split a line of a table into its cells; None if it is none."""
    plain = line.strip()
    if plain[:1] not in _BARS or not any(bar in plain[1:] for bar in _BARS):
        return None
    inner = plain[1:-1] if plain[-1] in _BARS else plain[1:]  # nanobench draws no bar at the end
    return [cell.strip().strip("'\"`").strip() for cell in re.split(r"[│|║]", inner)]


def _columns(cells: Sequence[str]) -> tuple[int, int, str] | None:
    """Find the places of the name and of the number that counts, with its unit; None if this is no heading."""
    units = {
        place: (found[1] or found[2])
        for place, cell in enumerate(cells)
        if (found := _UNIT.search(cell)) and not _ASIDE.search(cell.partition("(")[0]) and not cell[:1].isdigit()
    }
    name = next((place for place, cell in enumerate(cells) if _NAME.fullmatch(cell)), None)
    if name is None or not units:
        return None

    def rank(place: int) -> int:
        return next(at for at, start in enumerate(_ORDER) if cells[place].lower().startswith(start))

    place = min(units, key=rank)
    return name, place, units[place]
