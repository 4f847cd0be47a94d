"""A whole file in a reply; of a file with marked blocks, only what lies between the markers is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopty.kit.markers import Span, editable_spans
from loopty.proposers.code.line_match import Lines
from loopty.proposers.code.reply_faults import misfit


@dataclass(frozen=True, slots=True)
class Whole:
    """All lines of a file, or of its only marked block."""

    path: str
    lines: tuple[str, ...]

    def applied(self, before: str | None) -> str:
        end = Lines.of(before or "").end
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
            raise misfit(f"{path} has {len(blocks)} marked blocks: keep the lines with the markers")
        return _grafted(before, blocks, [_only_block(before, blocks[0], after)])
    if len(blocks) == len(news) and _nothing_new(_outside(before, blocks), _outside(after, news)):
        return _grafted(before, blocks, [block.of(after) for block in news])
    return after


def _only_block(before: str, block: Span, after: str) -> str:
    """The block of a file that came without markers: all of it, unless the rest of the file is around it."""
    head = _bare(before[: block.start])[:-1]
    tail = _bare(before[block.end :])[1:]
    lines = Lines.of(after)
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
    return str(Lines(lines.bodies[start:end], lines.ends[start:end]))


def _bare(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _outside(text: str, blocks: Sequence[Span]) -> str:
    edges = [0, *(edge for block in blocks for edge in block), len(text)]
    return "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def _nothing_new(before: str, after: str) -> bool:
    """Whether everything in `after` was there before: a model that is sloppy leaves out, it does not add."""
    return set(_bare(after)) <= set(_bare(before))


def _grafted(before: str, blocks: Sequence[Span], contents: Sequence[str]) -> str:
    made, at = [], 0
    for block, content in zip(blocks, contents, strict=True):
        made += [before[at : block.start], content]
        at = block.end
    return "".join((*made, before[at:]))
