"""SEARCH and REPLACE: replace some lines of a file."""

from __future__ import annotations

import difflib
from collections import Counter

from loopty.kit.records import Record
from loopty.proposers.code.line_match import FileLines, line_matches
from loopty.proposers.code.reply_faults import apply_fault

_MAX_SHOWN_LINES = 12
_MAX_COMPARED_LINES = 2_000
_MAX_OCCURRENCES = 20
"""A line that occurs more often says nothing about the position."""


class Block(Record):
    """Lines to search for and the lines to replace them with. An empty search makes a new file."""

    path: str
    search: tuple[str, ...]
    replace: tuple[str, ...]

    def apply(self, before: str | None) -> str:
        """The file with the block applied. Raises ProposalFault unless the search matches exactly once."""
        if not any(line.strip() for line in self.search):
            if before:
                raise apply_fault(
                    f"{self.path}: SEARCH is empty, but the file exists: put the lines to replace there"
                )
            return "".join(f"{line}\n" for line in self.replace)
        if before is None:
            raise apply_fault(f"{self.path}: there is no such file to search in")
        lines = FileLines.of(before)
        matches = line_matches(lines.bodies, self.search)
        first = next(line for line in self.search if line.strip()).strip()
        if not matches:
            raise apply_fault(
                f"{self.path}: SEARCH is not in the file: {first}", *_closest_lines(lines, self.search)
            )
        if len(matches) > 1:
            at = ", ".join(str(match.start + 1) for match in matches[:5])
            raise apply_fault(
                f"{self.path}: SEARCH is in the file {len(matches)} times: {first}",
                f"It begins at lines {at}. Put more of the lines around it into SEARCH, so that it is there once.",
            )
        (match,) = matches
        return str(lines.replace(match.start, len(self.search), match.fit_indentation(self.replace)))


def _closest_lines(lines: FileLines, wanted: tuple[str, ...]) -> tuple[str, str]:
    """Advice for the model, and the lines of the file where the search was probably meant to match."""
    start = _likely_start(lines.bodies, wanted)
    if start is None:
        return "Copy the lines exactly as the file has them.", ""
    shown = lines.bodies[start : start + min(len(wanted), _MAX_SHOWN_LINES)]
    return "The closest lines of the file are:", "\n".join(shown)


def _likely_start(bodies: tuple[str, ...], wanted: tuple[str, ...]) -> int | None:
    """Where most of the wanted lines occur in order; otherwise the line most like the first of them, or None."""
    positions: dict[str, list[int]] = {}
    for index, body in enumerate(bodies):
        positions.setdefault(body.strip(), []).append(index)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted):
        occurrences = positions.get(line.strip(), [])
        if line.strip() and len(occurrences) <= _MAX_OCCURRENCES:
            votes.update(max(index - offset, 0) for index in occurrences)
    if votes:
        return votes.most_common(1)[0][0]
    first = next(line.strip() for line in wanted if line.strip())
    compared = [body.strip() for body in bodies[:_MAX_COMPARED_LINES]]
    close = difflib.get_close_matches(first[:200], compared, n=1)
    return compared.index(close[0]) if close else None
