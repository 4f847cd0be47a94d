"""Marked blocks: the parts of a program that may change."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

_MARKER = re.compile(r"EVOLVE-BLOCK-(START|END)\b")
# Any comment opener counts, whatever the language: a marker recognised once too often freezes text,
# one missed would thaw it.
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


@functools.lru_cache(maxsize=16)  # a proposal is looked at half a dozen times before it is one
def editable_spans(text: str) -> tuple[Span, ...]:
    """What lies between EVOLVE-BLOCK markers, all of it when there are none; ValueError when unpaired."""
    blocks: list[Span] = []
    opened: Span | None = None
    for marker in _markers(text):
        at = line_label(text, marker.line.start)
        if marker.opens and opened:
            raise ValueError(f"{at}: EVOLVE-BLOCK-START inside another block")
        if marker.opens:
            opened = marker.line
        elif opened:
            blocks.append(Span(opened.end, marker.line.start))
            opened = None
        else:
            raise ValueError(f"{at}: EVOLVE-BLOCK-END without a START before it")
    if opened:
        raise ValueError(f"{line_label(text, opened.start)}: EVOLVE-BLOCK-START without an END after it")
    return tuple(blocks) or (Span(0, len(text)),)


def change_outside_blocks(before: str, after: str) -> str | None:
    """Why `after` is not `before` with other text in its blocks; ValueError when `before` is malformed."""
    blocks = editable_spans(before)
    if blocks == (Span(0, len(before)),):
        return None
    try:
        kept = editable_spans(after)
    except ValueError as broken:
        return f"marked blocks are broken: {broken}"
    if len(kept) != len(blocks):
        return f"marked blocks: {len(blocks)} before, {len(kept)} after"
    for frozen, now in zip(_frozen_spans(before, blocks), _frozen_spans(after, kept), strict=True):
        pairs = zip_longest(frozen.part_of(before).split("\n"), now.part_of(after).split("\n"))
        if different := next((index for index, (old, new) in enumerate(pairs, start=1) if old != new), None):
            line = before.count("\n", 0, frozen.start) + different
            return f"line {line} is outside the marked blocks and was changed"
    return None


def _markers(text: str) -> Iterator[_Marker]:
    for match in _MARKER.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        if _OPENER.search(text, max(start, match.start() - 80), match.start()):
            end = text.find("\n", match.end()) + 1
            yield _Marker(match[1] == "START", Span(start, end or len(text)))


def _frozen_spans(text: str, blocks: Sequence[Span]) -> list[Span]:
    """The frozen spans, marker lines included."""
    edges = [0, *(edge for block in blocks for edge in block), len(text)]
    return [Span(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def line_label(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}"
