"""Draw one mutation: a kind of edit, one to three places for it, and the resulting text."""

import random
from collections.abc import Callable, Iterable, Sequence

from loopty.kit.markers import Span, editable_spans
from loopty.kit.records import Record
from loopty.proposers.mutation.edit_places import Edit, EditKind, EditPlace, apply_edits
from loopty.proposers.mutation.languages import is_code
from loopty.proposers.mutation.python_places import compiles, python_places
from loopty.proposers.mutation.text_places import is_prose, text_places
from loopty.proposers.mutation.token_places import token_places

_WEIGHTS: dict[EditKind, float] = {
    "number": 0.6,
    "operator": 0.2,
    "statement": 0.2,
    # Only prose has these, and then no operators or statements.
    "passage": 0.6,
    "word": 0.3,
}
_MAX_DRAWS = 20  # most edits leave the program valid, so the first draw is nearly always enough
_ONE_MORE_CHANCE = 0.3  # the chance of one more edit
_MAX_EDITS = 3


class Mutation(Record):
    """A text with one to three edits, all of one kind, so that a result can be credited to the kind."""

    text: str
    summary: str
    operator: EditKind


def mutate(
    text: str, path: str, rng: random.Random, bias: Callable[[str], float] = lambda _: 1.0
) -> Mutation | None:
    """One seeded mutation inside the marked blocks, or None when nothing can be changed.

    `bias` says how much more often than usual a kind of edit is drawn.

    Python that compiles still compiles afterwards. Raises ValueError when the markers are malformed.
    """
    editable = editable_spans(text)
    python = python_places(text, editable) if path.endswith(".py") else None
    places = _by_kind(_places(text, path, editable) if python is None else python)
    kinds = [kind for kind in _WEIGHTS if places[kind]]
    for _ in range(_MAX_DRAWS if kinds else 0):
        kind = rng.choices(kinds, [_WEIGHTS[kind] * bias(kind) for kind in kinds])[0]
        edits = _without_overlaps(_draw_edits(text, places[kind], rng))
        mutated = apply_edits(text, edits)
        if mutated != text and (python is None or compiles(mutated)):
            return Mutation(mutated, "; ".join(edit.summary for edit in edits), kind)
    return None


def _places(text: str, path: str, editable: Sequence[Span]) -> list[EditPlace]:
    """The places of code by its tokens and lines; of prose, and where there are none, by sentences and words."""
    tokens = token_places(text, path, editable)
    if is_prose(path):
        return [place for place in tokens if place.kind == "number"] + text_places(text, editable)
    return tokens or (text_places(text, editable) if not is_code(path) else [])


def _by_kind(places: Iterable[EditPlace]) -> dict[EditKind, list[EditPlace]]:
    by_kind: dict[EditKind, list[EditPlace]] = {kind: [] for kind in _WEIGHTS}
    for place in places:
        by_kind[place.kind].append(place)
    return by_kind


def _draw_edits(text: str, places: Sequence[EditPlace], rng: random.Random) -> list[Edit]:
    count = 1
    while count < _MAX_EDITS and rng.random() < _ONE_MORE_CHANCE:
        count += 1
    drawn = (place.edit(text, rng) for place in rng.sample(places, min(count, len(places))))
    return sorted(edit for edit in drawn if edit)


def _without_overlaps(edits: Iterable[Edit]) -> list[Edit]:
    """The edits, in order, that do not overlap an earlier one."""
    separate: list[Edit] = []
    for edit in edits:
        if not separate or separate[-1].span.end <= edit.span.start:
            separate.append(edit)
    return separate
