"""A whole file in a reply; of a file with marked blocks, only what lies between the markers is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopty.kit.markers import Span, editable_spans
from loopty.proposers.code.line_match import FileLines
from loopty.proposers.code.reply_faults import apply_fault


@dataclass(frozen=True, slots=True)
class WholeFile:
    """All lines of a file, or of its only marked block."""

    path: str
    lines: tuple[str, ...]

    def apply(self, before: str | None) -> str:
        end = FileLines.of(before or "").end
        after = "".join(f"{line}{end}" for line in self.lines)
        return after if before is None else _within_markers(self.path, before, after)


def _within_markers(path: str, before: str, after: str) -> str:
    """The file as it was, with the blocks of the new one; the new one where that would hide a change."""
    try:
        blocks, news = editable_spans(before), editable_spans(after)
    except ValueError:
        return after  # what is wrong with them is said where access is checked
    if blocks == (Span(0, len(before)),):
        return after
    if news == (Span(0, len(after)),):
        if len(blocks) > 1:
            raise apply_fault(f"{path} has {len(blocks)} marked blocks: keep the lines with the markers")
        return _with_blocks(before, blocks, [_only_block(before, blocks[0], after)])
    if len(blocks) == len(news) and _adds_nothing(_text_outside(before, blocks), _text_outside(after, news)):
        return _with_blocks(before, blocks, [block.part_of(after) for block in news])
    return after


def _only_block(before: str, block: Span, after: str) -> str:
    """The block of a file that came without markers: all of it, unless the rest of the file is around it."""
    head = _bare_lines(before[: block.start])[:-1]
    tail = _bare_lines(before[block.end :])[1:]
    lines = FileLines.of(after)
    written = [index for index, body in enumerate(lines.bodies) if body.strip()]
    bare = [lines.bodies[index].strip() for index in written]
    # A block may end as the file does, with a bracket: that alone does not tell.
    around = len(head) + len(tail) > (0 if head else 1)
    if not (around and len(bare) >= len(head) + len(tail) and bare[: len(head)] == head):
        return after
    if tail and bare[-len(tail) :] != tail:
        return after
    start = written[len(head)] if len(head) < len(written) else len(lines.bodies)
    end = written[-len(tail)] if tail else len(lines.bodies)
    return str(FileLines(lines.bodies[start:end], lines.ends[start:end]))


def _bare_lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _text_outside(text: str, blocks: Sequence[Span]) -> str:
    edges = [0, *(edge for block in blocks for edge in block), len(text)]
    return "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def _adds_nothing(before: str, after: str) -> bool:
    """Whether everything in `after` was there before: a model that is sloppy leaves out, it does not add."""
    return set(_bare_lines(after)) <= set(_bare_lines(before))


def _with_blocks(before: str, blocks: Sequence[Span], contents: Sequence[str]) -> str:
    made, at = [], 0
    for block, content in zip(blocks, contents, strict=True):
        made += [before[at : block.start], content]
        at = block.end
    return "".join((*made, before[at:]))
