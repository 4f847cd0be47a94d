"""An edit as data, and the places of a text where one can be made."""

import random
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol

from loopty.kit.markers import Span, line_label
from loopty.kit.records import Record

EditKind = Literal["number", "operator", "statement", "passage", "word"]

_LINE_END = re.compile(r"\r\n|\r|\n")


class Edit(NamedTuple):
    """Replace a span of the text; `summary` describes the edit to a person."""

    span: Span
    new: str
    summary: str


class EditPlace(Protocol):
    """A place in the text for edits of one kind."""

    kind: ClassVar[EditKind]

    def edit(self, text: str, rng: random.Random) -> Edit | None:
        """Draw one edit for this place; None when this draw changes nothing."""
        ...


class Swap(Record):
    """A token that another of its kind can replace: an operator or a boolean."""

    kind: ClassVar[EditKind] = "operator"
    span: Span
    others: tuple[str, ...]

    def edit(self, text: str, rng: random.Random) -> Edit | None:
        return token_edit(text, self.span, rng.choice(self.others))


class Statement(Record):
    """The whole lines of one statement of a block, without the last line end."""

    kind: ClassVar[EditKind] = "statement"
    span: Span
    following: Span | None  # the next statement of the same block, which it can swap places with
    only_in_block: bool  # deleting it would leave an empty block

    def edit(self, text: str, rng: random.Random) -> Edit | None:
        moves = ["duplicate"] + ["delete"] * (not self.only_in_block) + ["swap"] * (self.following is not None)
        move = rng.choice(moves)
        summary = f"{move} statement {line_label(text, self.span.start)}"
        own = self.span.part_of(text)
        if move == "delete":
            return Edit(_with_line_end(text, self.span), "", summary)
        if self.following is None or move == "duplicate":
            line_end = "\r\n" if "\r\n" in text else "\n"
            return Edit(self.span, own + line_end + own, summary)
        between = text[self.span.end : self.following.start]
        both = Span(self.span.start, self.following.end)
        return Edit(both, self.following.part_of(text) + between + own, summary)


def statements_of(block: Sequence[Span | None], editable: Iterable[Span], text: str) -> Iterable[Statement]:
    """The editable statements of one block; None in `block` is a statement that must not change."""
    free = [span if span and _with_line_end(text, span).is_within(editable) else None for span in block]
    for index, span in enumerate(free):
        if span:
            following = free[index + 1] if index + 1 < len(free) else None
            if following and not Span(span.start, following.end).is_within(editable):
                following = None
            yield Statement(span, following, only_in_block=len(block) == 1)


def token_edit(text: str, span: Span, new: str) -> Edit:
    """An edit of one token."""
    return Edit(span, new, f"{span.part_of(text)} → {new} {line_label(text, span.start)}")


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with these edits, which must not overlap and must be sorted by position."""
    pieces, position = [], 0
    for edit in edits:
        pieces += [text[position : edit.span.start], edit.new]
        position = edit.span.end
    return "".join(pieces) + text[position:]


def _with_line_end(text: str, span: Span) -> Span:
    """The lines with one line end: the one after them or, at the end of the text, the one before them."""
    if after := _LINE_END.match(text, span.end):
        return Span(span.start, after.end())
    before = _LINE_END.search(text, max(0, span.start - 2), span.start)
    return Span(before.start() if before else span.start, span.end)
