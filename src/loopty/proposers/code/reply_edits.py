"""The edits that a reply may hold: SEARCH and REPLACE blocks, unified diffs, whole files; where they match, and
why one is no use.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence

from loopty.domain.errors import LooptyError
from loopty.domain.proposal import Objection
from loopty.kit.foreign_text import one_line
from loopty.kit.markers import Span, editable_spans
from loopty.kit.records import Record

_LONGEST_REASON = 300


class ProposalFault(LooptyError):  # noqa: N818
    """A change that cannot be parsed or applied, or is not allowed."""

    def __init__(self, objection: Objection, reason: str, advice: str = "", quotation: str = "") -> None:
        """`advice` is loopty's own words, `quotation` lines of a file, which are shown as data."""
        self.objection = objection
        self.reason = one_line(reason[: 4 * _LONGEST_REASON], _LONGEST_REASON)
        self.advice = advice
        self.quotation = quotation
        super().__init__(self.reason)


def parse_fault(reason: str, advice: str = "") -> ProposalFault:
    """Make the fault of a reply that cannot be parsed."""
    return ProposalFault(Objection.REPLY, reason, advice)


def apply_fault(reason: str, advice: str = "", quotation: str = "") -> ProposalFault:
    """Make the fault of a change that cannot be applied to the files."""
    return ProposalFault(Objection.APPLY, reason, advice, quotation)


_MAX_MATCHES = 100


class FileLines(Record):
    """The lines of a file and, separately, their line ends; only the last line may have none."""

    bodies: tuple[str, ...]
    ends: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> FileLines:
        # Not splitlines(): it splits at Unicode line ends that compilers do not accept.
        parts = text.split("\n")
        last = parts.pop()
        ends = ["\r\n" if part.endswith("\r") else "\n" for part in parts]
        bodies = [part.removesuffix("\r") for part in parts]
        if last:
            bodies, ends = [*bodies, last], [*ends, ""]
        return cls(tuple(bodies), tuple(ends))

    @property
    def end(self) -> str:
        """Return the line end that most lines of this file have."""
        return "\r\n" if 2 * self.ends.count("\r\n") > len(self.ends) else "\n"

    def replace(self, start: int, count: int, bodies: Sequence[str]) -> FileLines:
        """Return the file with `count` lines from `start` replaced; every other byte stays the same."""
        after = start + count
        ends = [self.end] * len(bodies)
        if after == len(self.bodies) and ends and self.ends and not self.ends[-1]:
            ends[-1] = ""
        return FileLines(
            (*self.bodies[:start], *bodies, *self.bodies[after:]), (*self.ends[:start], *ends, *self.ends[after:])
        )

    def __str__(self) -> str:
        return "".join(body + end for body, end in zip(self.bodies, self.ends, strict=True))


class LineMatch(Record):
    """Where lines match, and the indentation to add to or remove from their replacement."""

    start: int
    add: str = ""
    drop: str = ""

    def fit_indentation(self, bodies: Iterable[str]) -> list[str]:
        return [f"{self.add}{body.removeprefix(self.drop)}" if body.strip() else body for body in bodies]


def line_matches(bodies: Sequence[str], wanted: Sequence[str]) -> list[LineMatch]:
    """Find the wanted lines: exactly, or up to trailing white space, or up to one common indentation."""
    if not wanted:
        return []
    for normalise in (str, str.rstrip):
        if starts := _occurrences(bodies, wanted, normalise):
            return [LineMatch(start) for start in starts]
    matches = (_match_by_indentation(bodies, wanted, start) for start in _occurrences(bodies, wanted, str.strip))
    return [match for match in matches if match]


def _occurrences(bodies: Sequence[str], wanted: Sequence[str], normalise: Callable[[str], str]) -> list[int]:
    """Return line numbers from 0, at most a hundred. A text search, because it is fast for any needle."""
    text = "\n" + "".join(f"{normalise(body)}\n" for body in bodies)
    needle = "\n" + "".join(f"{normalise(line)}\n" for line in wanted)
    starts: list[int] = []
    at, line, counted = text.find(needle), 0, 0
    while at >= 0 and len(starts) < _MAX_MATCHES:
        line, counted = line + text.count("\n", counted, at), at
        starts.append(line)
        at = text.find(needle, at + 1)
    return starts


def _match_by_indentation(bodies: Sequence[str], wanted: Sequence[str], start: int) -> LineMatch | None:
    """Return the match if all lines there have the same extra or missing indentation, or None."""
    pairs = [(body, line) for body, line in zip(bodies[start:], wanted, strict=False) if line.strip()]
    if not pairs:
        return None
    body, line = (_indentation(text) for text in pairs[0])
    if body.endswith(line):
        match = LineMatch(start, add=body.removesuffix(line))
    elif line.endswith(body):
        match = LineMatch(start, drop=line.removesuffix(body))
    else:
        return None
    fits = all(
        line.startswith(match.drop) and body.rstrip() == f"{match.add}{line.removeprefix(match.drop)}".rstrip()
        for body, line in pairs
    )
    return match if fits else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


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
        """Return the file with the block applied. Raises ProposalFault unless the search matches exactly once."""
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
    """Return advice for the model, and the lines where the search was probably meant to match."""
    start = _likely_start(lines.bodies, wanted)
    if start is None:
        return "Copy the lines exactly as the file has them.", ""
    shown = lines.bodies[start : start + min(len(wanted), _MAX_SHOWN_LINES)]
    return "The closest lines of the file are:", "\n".join(shown)


def _likely_start(bodies: tuple[str, ...], wanted: tuple[str, ...]) -> int | None:
    """Find where most wanted lines occur in order; otherwise the line most like the first of them, or None."""
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
        """Return the lines after the change. Context keeps the file's own white space at its line ends."""
        return [
            text if index is None else old[index] for text, index in zip(self.after, self.context, strict=True)
        ]


class Patch(Record):
    """The hunks of one file."""

    path: str
    hunks: tuple[Hunk, ...]
    new: bool = False

    def apply(self, before: str | None) -> str:
        """Return the file with all hunks applied. Raises ProposalFault if a hunk does not match exactly once."""
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
    """Read the changes of a diff, file by file. Raises ProposalFault when it cannot be parsed."""
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
    """Return the path in a header, without git's prefix; None for /dev/null."""
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


class WholeFile(Record):
    """All lines of a file, or of its only marked block."""

    path: str
    lines: tuple[str, ...]

    def apply(self, before: str | None) -> str:
        """Return the new text of the file. Raises ProposalFault when its marked blocks cannot be identified."""
        end = FileLines.of(before).end if before and "\r\n" in before else "\n"
        after = "".join(f"{line}{end}" for line in self.lines)
        return after if before is None else _within_markers(self.path, before, after)


def _within_markers(path: str, before: str, after: str) -> str:
    """Put the new file's blocks into the old file; the new file if that would hide a change outside them."""
    try:
        blocks, new_blocks = editable_spans(before), editable_spans(after)
    except ValueError:
        return after  # the access check reports the fault
    if blocks == (Span(0, len(before)),):
        return after
    if new_blocks == (Span(0, len(after)),):
        if len(blocks) > 1:
            raise apply_fault(f"{path} has {len(blocks)} marked blocks: keep the lines with the markers")
        return _with_blocks(before, blocks, [_only_block(before, blocks[0], after)])
    outside, new_outside = _text_outside(before, blocks), _text_outside(after, new_blocks)
    if len(blocks) == len(new_blocks) and _adds_nothing(outside, new_outside):
        return _with_blocks(before, blocks, [block.part_of(after) for block in new_blocks])
    return after


def _only_block(before: str, block: Span, after: str) -> str:
    """Return the block of a reply without markers: all of it, unless it repeats the file around the block."""
    head = _bare_lines(before[: block.start])[:-1]
    tail = _bare_lines(before[block.end :])[1:]
    lines = FileLines.of(after)
    filled = [index for index, body in enumerate(lines.bodies) if body.strip()]
    bare = [lines.bodies[index].strip() for index in filled]
    # A block may end with a bracket as the file does: one such line alone proves nothing.
    has_context = len(head) + len(tail) > (0 if head else 1)
    if not (has_context and len(bare) >= len(head) + len(tail) and bare[: len(head)] == head):
        return after
    if tail and bare[-len(tail) :] != tail:
        return after
    start = filled[len(head)] if len(head) < len(filled) else len(lines.bodies)
    end = filled[-len(tail)] if tail else len(lines.bodies)
    return str(FileLines(lines.bodies[start:end], lines.ends[start:end]))


def _bare_lines(text: str) -> list[str]:
    return [bare for line in text.split("\n") if (bare := line.strip())]


def _text_outside(text: str, blocks: Sequence[Span]) -> str:
    edges = [0, *(edge for block in blocks for edge in block), len(text)]
    return "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def _adds_nothing(before: str, after: str) -> bool:
    """Say whether every line of `after` was there before: a careless model leaves lines out, but adds none."""
    return before == after or set(_bare_lines(after)) <= set(_bare_lines(before))


def _with_blocks(before: str, blocks: Sequence[Span], contents: Sequence[str]) -> str:
    """Return the text with other contents in its blocks."""
    parts, at = [], 0
    for block, content in zip(blocks, contents, strict=True):
        parts += [before[at : block.start], content]
        at = block.end
    return "".join((*parts, before[at:]))
