"""A whole file in a reply; from a file with marked blocks, only the text between the markers is used."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.kit.markers import Span, editable_spans
from loopty.kit.records import Record
from loopty.proposers.code.line_match import FileLines
from loopty.proposers.code.reply_faults import apply_fault


class WholeFile(Record):
    """All lines of a file, or of its only marked block."""

    path: str
    lines: tuple[str, ...]

    def apply(self, before: str | None) -> str:
        """The new text of the file. Raises ProposalFault when its marked blocks cannot be identified."""
        end = FileLines.of(before).end if before and "\r\n" in before else "\n"
        after = "".join(f"{line}{end}" for line in self.lines)
        return after if before is None else _within_markers(self.path, before, after)


def _within_markers(path: str, before: str, after: str) -> str:
    """The old file with the new file's blocks; the new file when that would hide a change outside the blocks."""
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
    """The block in a reply without markers: the whole reply, unless it repeats the rest of the file around it."""
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
    """Whether every line of `after` was there before: a careless model leaves lines out, but adds none."""
    return before == after or set(_bare_lines(after)) <= set(_bare_lines(before))


def _with_blocks(before: str, blocks: Sequence[Span], contents: Sequence[str]) -> str:
    """The text with other contents in its blocks."""
    parts, at = [], 0
    for block, content in zip(blocks, contents, strict=True):
        parts += [before[at : block.start], content]
        at = block.end
    return "".join((*parts, before[at:]))
