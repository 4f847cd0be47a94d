"""Programs as text: the marked blocks that may change, and how far two texts are the same."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

_MARKER = re.compile(r"EVOLVE-BLOCK-(START|END)\b")
# Any comment opener counts, in any language: a false marker only freezes text, a missed one would unfreeze it.
_OPENER = re.compile(r"(?:#|//|!|--|\(\*|;|%|/\*)[ \t#/!*;%-]*\Z")


class Span(NamedTuple):
    """A half-open range of character positions."""

    start: int
    end: int

    def part_of(self, text: str) -> str:
        return text[self.start : self.end]

    def is_within(self, spans: Iterable[Span]) -> bool:
        return any(span.start <= self.start and self.end <= span.end for span in spans)


class _Marker(NamedTuple):
    opens: bool
    line: Span


@functools.lru_cache(maxsize=16)  # each proposal is checked half a dozen times
def editable_spans(text: str) -> tuple[Span, ...]:
    """Find the text between EVOLVE-BLOCK markers, all of it without any. Raises ValueError for an unpaired one."""
    blocks: list[Span] = []
    start_marker: Span | None = None
    for marker in _markers(text):
        at = line_label(text, marker.line.start)
        if marker.opens and start_marker:
            raise ValueError(f"{at}: EVOLVE-BLOCK-START inside another block")
        if marker.opens:
            start_marker = marker.line
        elif start_marker:
            blocks.append(Span(start_marker.end, marker.line.start))
            start_marker = None
        else:
            raise ValueError(f"{at}: EVOLVE-BLOCK-END without a START before it")
    if start_marker:
        raise ValueError(f"{line_label(text, start_marker.start)}: EVOLVE-BLOCK-START without an END after it")
    return tuple(blocks) or (Span(0, len(text)),)


def change_outside_blocks(before: str, after: str) -> str | None:
    """Tell how `after` changes `before` outside its blocks, or None. Raises ValueError if `before` is faulty."""
    blocks = editable_spans(before)
    if blocks == (Span(0, len(before)),):
        return None
    try:
        blocks_after = editable_spans(after)
    except ValueError as error:
        return f"the marked blocks are broken: {error}"
    if len(blocks_after) != len(blocks):
        return f"the number of marked blocks changed from {len(blocks)} to {len(blocks_after)}"
    for old_span, new_span in zip(_frozen_spans(before, blocks), _frozen_spans(after, blocks_after), strict=True):
        old_part, new_part = old_span.part_of(before), new_span.part_of(after)
        if old_part == new_part:
            continue
        pairs = zip_longest(old_part.split("\n"), new_part.split("\n"))
        if different := next((index for index, (old, new) in enumerate(pairs, start=1) if old != new), None):
            line = before.count("\n", 0, old_span.start) + different
            return f"line {line} is outside the marked blocks and was changed"
    return None


def _markers(text: str) -> Iterator[_Marker]:
    for match in _MARKER.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        if _OPENER.search(text, max(start, match.start() - 80), match.start()):
            end = text.find("\n", match.end()) + 1
            yield _Marker(match[1] == "START", Span(start, end or len(text)))


def _frozen_spans(text: str, blocks: Sequence[Span]) -> list[Span]:
    """List the spans around the blocks, which must not change; they include the marker lines."""
    edges = [0, *(edge for block in blocks for edge in block), len(text)]
    return [Span(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def line_label(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}"
