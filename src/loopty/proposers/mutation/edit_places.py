"""An edit as data, the places of a text where one can be made, and numbers that keep their notation when they are
perturbed.
"""

from __future__ import annotations

import math
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
    """Return the editable statements of one block; None in `block` is a statement that must not change."""
    free = [span if span and _with_line_end(text, span).is_within(editable) else None for span in block]
    for index, span in enumerate(free):
        if span:
            following = free[index + 1] if index + 1 < len(free) else None
            if following and not Span(span.start, following.end).is_within(editable):
                following = None
            yield Statement(span, following, only_in_block=len(block) == 1)


def token_edit(text: str, span: Span, new: str) -> Edit:
    """Make an edit of one token."""
    return Edit(span, new, f"{span.part_of(text)} → {new} {line_label(text, span.start)}")


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Apply these edits to the text; they must not overlap and must be sorted by position."""
    pieces, position = [], 0
    for edit in edits:
        pieces += [text[position : edit.span.start], edit.new]
        position = edit.span.end
    return "".join(pieces) + text[position:]


def _with_line_end(text: str, span: Span) -> Span:
    """Return the lines with one line end: the one after them or, at the end of the text, the one before them."""
    if after := _LINE_END.match(text, span.end):
        return Span(span.start, after.end())
    before = _LINE_END.search(text, max(0, span.start - 2), span.start)
    return Span(before.start() if before else span.start, span.end)


_LITERAL = re.compile(
    r"""(?P<sign>-?)(?:
        (?P<base>0[xXbBoO])(?P<digits>[\da-fA-F]+(?:[_'][\da-fA-F]+)*)
      | (?P<real>(?:\d[\d_']*\.(?:\d[\d_']*)?|\.\d+)(?:[eEdD][+-]?\d+)? | \d+[eEdD][+-]?\d+)
      | (?P<whole>0|[1-9]\d*(?:[_']\d+)*)
    )(?P<suffix>(?:[A-Za-z_]\w*)?)""",
    re.VERBOSE,
)
_LONGEST = 40  # Longer literals are data, such as the digits of a key, not tuning knobs.
_RADIX = {"x": 16, "o": 8, "b": 2}


class Number(Record):
    """A number literal."""

    kind: ClassVar[EditKind] = "number"
    span: Span

    def edit(self, text: str, rng: random.Random) -> Edit | None:
        span = _with_sign(text, self.span)
        new = perturb(span.part_of(text), rng)
        if new is None:
            return None
        if new.startswith("-") and _character_before(text, span.start) in "+-*/%":
            new = f"({new})"  # `x-5` must not become the decrement `x--5`
        return token_edit(text, span, new)


def is_number(literal: str) -> bool:
    """Say whether the literal is a number that `perturb` can read and write."""
    return len(literal) <= _LONGEST and _LITERAL.fullmatch(literal) is not None


def perturb(literal: str, rng: random.Random) -> str | None:
    """Return another number in the same notation, or None when the literal cannot be read."""
    parts = _LITERAL.fullmatch(literal)
    if parts is None or not is_number(literal):
        return None
    sign, suffix = parts["sign"], parts["suffix"]
    if parts["real"]:
        number = _perturb_real(sign + parts["real"].replace("_", "").replace("'", ""), rng)
        return number and number + suffix
    code = (parts["base"] or "0d")[1].lower()
    digits = (parts["digits"] or parts["whole"]).replace("_", "").replace("'", "")
    try:
        old = int(sign + digits, _RADIX.get(code, 10))
    except ValueError:
        return None
    unsigned = parts["base"] is not None or "u" in suffix.lower()
    new = _perturb_int(old, unsigned, rng)
    if parts["base"] is None:
        return f"{new}{suffix}"
    spelled = format(new, code).zfill(len(digits))
    return f"{parts['base']}{spelled.upper() if digits != digits.lower() else spelled}{suffix}"


def _perturb_int(old: int, unsigned: bool, rng: random.Random) -> int:
    moves = {
        old + 1: 4,
        old - 1: 4,
        old * 2: 2,
        int(old / 2): 2,
        -old: 1,
        round(old * rng.gauss(1, 0.2)): 4,
        round(old * 2 ** rng.uniform(-2, 2)): 4,
    }
    new = [move for move in moves if move != old and not (unsigned and move < 0)]
    return rng.choices(new, [moves[move] for move in new])[0]


def _perturb_real(literal: str, rng: random.Random) -> str | None:
    double = "d" in literal.lower()  # Fortran's 1.0d0
    old = float(literal.lower().replace("d", "e"))
    if not math.isfinite(old):
        return None
    # Steps of every size: coarse steps find the region, fine steps improve within it.
    step = 10 ** rng.uniform(-3, -0.3)
    moves = (
        (old * rng.gauss(1, step), 6),
        (old * 2 ** rng.uniform(-2, 2), 4),
        (old + rng.gauss(0, step), 2),
        (old * 2, 1),
        (old / 2, 1),
        (-old, 1),
    )
    new = [(_round_to_step(move, old), weight) for move, weight in moves]
    new = [(move, weight) for move, weight in new if math.isfinite(move) and move != old]
    if not new:
        return None
    spelled = repr(rng.choices([move for move, _ in new], [weight for _, weight in new])[0])
    if double:
        return spelled.replace("e", "d") if "e" in spelled else spelled + "d0"
    return spelled


def _round_to_step(new: float, old: float) -> float:
    """Round the new number to four digits after a large step and six after a small one."""
    return float(f"{new:.4g}" if abs(new - old) > 0.01 * abs(old) else f"{new:.6g}")


def _with_sign(text: str, span: Span) -> Span:
    """Return the literal with its minus sign, unless the minus is a subtraction."""
    minus = span.start - 1
    subtracts = re.match(r"[\w)\]}\"'-]", _character_before(text, minus))
    return span if text[minus : span.start] != "-" or subtracts else Span(minus, span.end)


def _character_before(text: str, position: int) -> str:
    """Return the last character before the position that is not white space; a space if there is none."""
    return text[max(0, position - 80) : max(0, position)].rstrip()[-1:] or " "
