"""SEARCH and REPLACE: some lines of a file give way to others."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass

from loopty.proposers.code.line_match import FileLines, line_matches
from loopty.proposers.code.reply_faults import apply_fault

_MAX_SHOWN_LINES = 12
_MAX_COMPARED_LINES = 2_000
_MAX_OCCURRENCES = 20
"""A line that occurs more often says nothing about the place."""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines to look for and lines to put there. To look for nothing is to make a new file."""

    path: str
    search: tuple[str, ...]
    replace: tuple[str, ...]

    def apply(self, before: str | None) -> str:
        """The file with the block in it; raises Unfit unless it has exactly one place."""
        if not any(line.strip() for line in self.search):
            if before:
                raise apply_fault(
                    f"{self.path}: SEARCH is empty, and the file exists: put the lines to replace there"
                )
            return "".join(f"{line}\n" for line in self.replace)
        if before is None:
            raise apply_fault(f"{self.path}: there is no such file to search in")
        lines = FileLines.of(before)
        found = line_matches(lines.bodies, self.search)
        first = next(line for line in self.search if line.strip()).strip()
        if not found:
            raise apply_fault(
                f"{self.path}: SEARCH is not in the file: {first}", _closest_lines(lines, self.search)
            )
        if len(found) > 1:
            at = ", ".join(str(place.start + 1) for place in found[:5])
            raise apply_fault(
                f"{self.path}: SEARCH is in the file {len(found)} times: {first}",
                f"It begins at lines {at}. Put more of the lines around it into SEARCH, so that it is there once.",
            )
        (place,) = found
        return str(lines.replace(place.start, len(self.search), place.fit_indentation(self.replace)))


def _closest_lines(lines: FileLines, wanted: tuple[str, ...]) -> str:
    """What the file has at the place that was probably meant."""
    start = _likely_start(lines.bodies, wanted)
    if start is None:
        return "Copy the lines exactly as the file has them."
    shown = lines.bodies[start : start + min(len(wanted), _MAX_SHOWN_LINES)]
    return "The closest lines of the file are:\n" + "\n".join(shown)


def _likely_start(bodies: tuple[str, ...], wanted: tuple[str, ...]) -> int | None:
    """Where most of the wanted lines are in their order; else where a line is that resembles one of them."""
    found: dict[str, list[int]] = {}
    for index, body in enumerate(bodies):
        found.setdefault(body.strip(), []).append(index)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted):
        spots = found.get(line.strip(), [])
        if line.strip() and len(spots) <= _MAX_OCCURRENCES:
            votes.update(max(spot - offset, 0) for spot in spots)
    if votes:
        return votes.most_common(1)[0][0]
    first = next(line.strip() for line in wanted if line.strip())
    looked_at = [body.strip() for body in bodies[:_MAX_COMPARED_LINES]]
    close = difflib.get_close_matches(first[:200], looked_at, n=1)
    return looked_at.index(close[0]) if close else None
