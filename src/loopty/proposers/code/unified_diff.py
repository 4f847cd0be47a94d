"""Unified diffs, as models write them: what their headers count is not believed."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from loopty.proposers.code.line_match import FileLines, LineMatch, line_matches
from loopty.proposers.code.reply_faults import apply_fault, parse_fault

_HUNK = re.compile(r"@@(?:\s*-(\d{1,9}))?")
_META = re.compile(r"(?:diff |index |old mode |new mode |new file mode |deleted file mode |similarity |\\ )")


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines before and after, and where they were said to be (from 0), if that was said."""

    line: int | None
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """The hunks of one file."""

    path: str
    hunks: tuple[Hunk, ...]
    new: bool = False

    def apply(self, before: str | None) -> str:
        """The file with all hunks in it; raises Unfit when one has no place of its own."""
        if self.new and before:
            raise apply_fault(f"{self.path}: the diff adds the file, and it exists")
        if before is None and not self.new:
            raise apply_fault(f"{self.path}: there is no such file to apply the diff to")
        lines, moved = FileLines.of(before or ""), 0
        for number, hunk in enumerate(self.hunks, start=1):
            place = self._match(lines, hunk, moved, number)
            if hunk.line is not None:
                moved = place.start - hunk.line
            lines = lines.replace(place.start, len(hunk.before), hunk.after)
            moved += len(hunk.after) - len(hunk.before)
        return str(lines)

    def _match(self, lines: FileLines, hunk: Hunk, offset: int, number: int) -> LineMatch:
        where = f"{self.path}, hunk {number}"
        if not hunk.before:
            if lines.bodies:
                raise apply_fault(f"{where} has no line of the file: give some lines around the change")
            return LineMatch(0)
        # Indentation that is off cannot be told from context that is wrong.
        found = [place for place in line_matches(lines.bodies, hunk.before) if not place.add and not place.drop]
        if not found:
            first = next((line for line in hunk.before if line.strip()), "")
            raise apply_fault(f"{where}: its lines are not in the file: {first.strip()}")
        if len(found) == 1:
            return found[0]
        if hunk.line is None:
            raise apply_fault(f"{where}: its lines are in the file {len(found)} times: give more of them")
        near = sorted(found, key=lambda place: abs(place.start - (hunk.line or 0) - offset))
        if abs(near[0].start - hunk.line - offset) == abs(near[1].start - hunk.line - offset):
            raise apply_fault(f"{where}: its lines are in the file {len(found)} times: give more of them")
        return near[0]


@dataclass(frozen=True, slots=True)
class Removal:
    """A file that goes."""

    path: str

    def apply(self, before: str | None) -> None:
        if before is None:
            raise apply_fault(f"{self.path}: there is no such file to delete")


def parse_diff(lines: Sequence[str], known: Container[str]) -> list[Patch | Removal]:
    """What a diff changes, file by file; raises Unfit when it cannot be read."""
    found: list[Patch | Removal] = []
    at = 0
    while at < len(lines):
        if _is_header(lines, at):
            old, new = (_header_path(line, known) for line in lines[at : at + 2])
            hunks, at = _parse_hunks(lines, at + 2)
            if new is None and old is not None:
                found.append(Removal(old))
            elif new is not None and hunks:
                if old is not None and old != new:
                    raise parse_fault(f"the diff renames {old} to {new}: delete the one and add the other")
                found.append(Patch(new, tuple(hunks), new=old is None))
            else:
                raise parse_fault("the diff has a file without a hunk")
        elif not lines[at].strip() or _META.match(lines[at]):
            at += 1
        else:
            raise parse_fault(f"the diff has a line that belongs to no file: {lines[at]}")
    return found


def _is_header(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _header_path(header: str, known: Container[str]) -> str | None:
    """The path in a header, with git's prefix taken off; None for /dev/null."""
    named = header[4:].split("\t")[0].strip().strip('"')
    if named == "/dev/null":
        return None
    bare = named[2:] if named[:2] in ("a/", "b/") else named
    return named if named in known and bare not in known else bare.removeprefix("./")


def _parse_hunks(lines: Sequence[str], at: int) -> tuple[list[Hunk], int]:
    found: list[Hunk] = []
    while at < len(lines) and (match := _HUNK.match(lines[at])):
        at += 1
        began = at
        while at < len(lines) and not (
            _HUNK.match(lines[at]) or _is_header(lines, at) or lines[at].startswith("diff --git ")
        ):
            at += 1
        line = max(int(match[1]) - 1, 0) if match[1] else None
        found.append(_parse_hunk(line, lines[began:at]))
    return found, at


def _parse_hunk(line: int | None, body: Sequence[str]) -> Hunk:
    # Models leave out the space of an empty line, and put empty lines behind the last one.
    whole = [text or " " for text in body]
    while whole and not body[len(whole) - 1]:
        whole.pop()
    before, after = [], []
    for text in whole:
        match text[0]:
            case "\\":
                continue
            case " ":
                before.append(text[1:])
                after.append(text[1:])
            case "-":
                before.append(text[1:])
            case "+":
                after.append(text[1:])
            case _:
                raise parse_fault(f"a line of the diff begins with none of space, + and -: {text}")
    return Hunk(line, tuple(before), tuple(after))
