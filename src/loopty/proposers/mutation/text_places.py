"""Where prose can be edited: its sentences and words. So a prompt has a random control, too."""

import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import ClassVar

from loopty.kit.markers import Span, line_label
from loopty.kit.records import Record
from loopty.proposers.mutation.edit_places import Edit, EditKind, EditPlace

_TEXTS = frozenset(
    [
        ".md",
        ".markdown",
        ".txt",
        ".text",
        ".rst",
        ".adoc",
        ".tex",
        ".prompt",
        ".jinja",
        ".jinja2",
        ".j2",
        ".tmpl",
        ".mustache",
    ]
)
# A sentence ends with its line, or after a mark that a blank follows.
_SENTENCE = re.compile(r"\S(?:[^\n.!?]|[.!?](?!\s))*[.!?]*")
_WORD = re.compile(r"(?<!\S)[^\W\d_][\w'’-]*(?!\S)")
_FEWEST_SENTENCES = 2


def is_prose(path: str) -> bool:
    """Whether the file is text for people or models, by its extension."""
    return PurePath(path).suffix.lower() in _TEXTS


class Passage(Record):
    """A sentence that can be left out, said twice, or said after the next one."""

    kind: ClassVar[EditKind] = "passage"
    span: Span
    following: Span | None
    is_only: bool
    """Without it nothing would be left."""

    def edit(self, text: str, rng: random.Random) -> Edit | None:
        moves = ["duplicate"] + ["delete"] * (not self.is_only) + ["swap"] * (self.following is not None)
        move, own = rng.choice(moves), self.span.part_of(text)
        summary = f"{move} passage {line_label(text, self.span.start)}"
        if move == "delete":
            return Edit(self.span, "", summary)
        if move == "duplicate" or self.following is None:
            return Edit(self.span, f"{own} {own}", summary)
        between = text[self.span.end : self.following.start]
        return Edit(
            Span(self.span.start, self.following.end), self.following.part_of(text) + between + own, summary
        )


class Word(Record):
    """A word that can be left out, or change places with the next one."""

    kind: ClassVar[EditKind] = "word"
    span: Span
    following: Span | None

    def edit(self, text: str, rng: random.Random) -> Edit | None:
        label, own = line_label(text, self.span.start), self.span.part_of(text)
        if self.following is None or rng.random() < 0.5:
            end = self.span.end + (text[self.span.end : self.span.end + 1] == " ")
            return Edit(Span(self.span.start, end), "", f"delete word {own} {label}")
        between, other = text[self.span.end : self.following.start], self.following.part_of(text)
        both = Span(self.span.start, self.following.end)
        return Edit(both, other + between + own, f"swap words {own} and {other} {label}")


def text_places(text: str, editable: Sequence[Span]) -> list[EditPlace]:
    """Every sentence and word of the editable text."""
    sentences = [Span(*match.span()) for span in editable for match in _SENTENCE.finditer(text, *span)]
    words = [Span(*match.span()) for span in editable for match in _WORD.finditer(text, *span)]
    is_only = len(sentences) < _FEWEST_SENTENCES
    passages = (Passage(span, following, is_only) for span, following in _with_following(sentences, editable))
    return [*passages, *(Word(span, following) for span, following in _with_following(words, editable))]


def _with_following(spans: list[Span], editable: Sequence[Span]) -> Iterator[tuple[Span, Span | None]]:
    for span, following in pairwise([*spans, None]):
        assert span is not None
        both = following and Span(span.start, following.end)
        yield span, following if both and both.is_within(editable) else None
