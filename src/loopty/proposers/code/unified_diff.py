"""Unified diffs as models write them: the line counts in their headers are not trusted."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from loopty.kit.records import Record
from loopty.proposers.code.line_match import FileLines, LineMatch, line_matches
from loopty.proposers.code.reply_faults import apply_fault, parse_fault

_HUNK = re.compile(r"@@(?:\s*-(\d{1,9}))?")
_META = re.compile(r"(?:diff |index |old mode |new mode |new file mode |deleted file mode |similarity |\\ )")


class Hunk(Record):
    """The lines before and after a change."""

    line: int | None
    """The line number in the header, from 0; None if the header has none."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    context: tuple[int | None, ...]
    """For each line of `after`, its index in `before` where it is context; None where the diff adds it."""

    def new_lines(self, old: Sequence[str]) -> list[str]:
        """The lines after the change. Context keeps the file's own text: white space at its end may differ."""
        return [
            text if index is None else old[index] for text, index in zip(self.after, self.context, strict=True)
        ]


class Patch(Record):
    """The hunks of one file."""

    path: str
    hunks: tuple[Hunk, ...]
    new: bool = False

    def apply(self, before: str | None) -> str:
        """The file with all hunks applied. Raises ProposalFault when a hunk does not match one position alone."""
        if self.new and before:
            raise apply_fault(f"{self.path}: the diff adds the file, but it exists already")
        if before is None and not self.new:
            raise apply_fault(f"{self.path}: there is no such file to apply the diff to")
        lines, offset = FileLines.of(before or ""), 0
        for number, hunk in enumerate(self.hunks, start=1):
            match = self._match(lines, hunk, offset, number)
            if hunk.line is not None:
                offset = match.start - hunk.line
            old = lines.bodies[match.start : match.start + len(hunk.before)]
            lines = lines.replace(match.start, len(hunk.before), hunk.new_lines(old))
            offset += len(hunk.after) - len(hunk.before)
        return str(lines)

    def _match(self, lines: FileLines, hunk: Hunk, offset: int, number: int) -> LineMatch:
        where = f"{self.path}, hunk {number}"
        if not hunk.before:
            if lines.bodies:
                raise apply_fault(f"{where} has no line of the file: give some lines around the change")
            return LineMatch(0)
        # In a diff, wrong indentation cannot be distinguished from wrong context.
        matches = [match for match in line_matches(lines.bodies, hunk.before) if not match.add and not match.drop]
        if not matches:
            first = next((line for line in hunk.before if line.strip()), "")
            raise apply_fault(f"{where}: its lines are not in the file: {first.strip()}")
        if len(matches) == 1:
            return matches[0]
        if hunk.line is None:
            raise apply_fault(f"{where}: its lines are in the file {len(matches)} times: give more of them")
        nearest = sorted(matches, key=lambda match: abs(match.start - (hunk.line or 0) - offset))
        if abs(nearest[0].start - hunk.line - offset) == abs(nearest[1].start - hunk.line - offset):
            raise apply_fault(f"{where}: its lines are in the file {len(matches)} times: give more of them")
        return nearest[0]


class Removal(Record):
    """The deletion of a file."""

    path: str

    def apply(self, before: str | None) -> None:
        if before is None:
            raise apply_fault(f"{self.path}: there is no such file to delete")


def parse_diff(lines: Sequence[str], known: Container[str]) -> list[Patch | Removal]:
    """The changes of a diff, file by file. Raises ProposalFault when it cannot be parsed."""
    changes: list[Patch | Removal] = []
    at = 0
    while at < len(lines):
        if _is_header(lines, at):
            old, new = (_header_path(line, known) for line in lines[at : at + 2])
            hunks, at = _parse_hunks(lines, at + 2)
            if new is None and old is not None:
                changes.append(Removal(old))
            elif new is not None and hunks:
                if old is not None and old != new:
                    raise parse_fault(f"the diff renames {old} to {new}: delete the one and add the other")
                changes.append(Patch(new, tuple(hunks), new=old is None))
            else:
                raise parse_fault("the diff has a file without a hunk")
        elif not lines[at].strip() or _META.match(lines[at]):
            at += 1
        else:
            raise parse_fault(f"the diff has a line that belongs to no file: {lines[at]}")
    return changes


def _is_header(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _header_path(header: str, known: Container[str]) -> str | None:
    """The path in a header, without git's prefix; None for /dev/null."""
    path = header[4:].split("\t")[0].strip().strip('"')
    if path == "/dev/null":
        return None
    bare = path[2:] if path[:2] in ("a/", "b/") else path
    return path if path in known and bare not in known else bare.removeprefix("./")


def _parse_hunks(lines: Sequence[str], at: int) -> tuple[list[Hunk], int]:
    hunks: list[Hunk] = []
    while at < len(lines) and (match := _HUNK.match(lines[at])):
        at += 1
        start = at
        while at < len(lines) and not (
            _HUNK.match(lines[at]) or _is_header(lines, at) or lines[at].startswith("diff --git ")
        ):
            at += 1
        line = max(int(match[1]) - 1, 0) if match[1] else None
        hunks.append(_parse_hunk(line, lines[start:at]))
    return hunks, at


def _parse_hunk(line: int | None, body: Sequence[str]) -> Hunk:
    # Models leave out the space of an empty line, and add empty lines after the last one.
    whole = [text or " " for text in body]
    while whole and not body[len(whole) - 1]:
        whole.pop()
    before: list[str] = []
    after: list[str] = []
    context: list[int | None] = []
    for text in whole:
        match text[0]:
            case "\\":
                continue
            case " ":
                context.append(len(before))
                before.append(text[1:])
                after.append(text[1:])
            case "-":
                before.append(text[1:])
            case "+":
                context.append(None)
                after.append(text[1:])
            case _:
                raise parse_fault(f"a line of the diff begins with none of space, + and -: {text}")
    return Hunk(line, tuple(before), tuple(after), tuple(context))
