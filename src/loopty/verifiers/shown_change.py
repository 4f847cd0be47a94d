"""What the verifier is shown of a change, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopty.domain.space import Params
from loopty.kit.fence import fenced, untagged
from loopty.kit.token_budget import largest
from loopty.kit.token_count import tokens_of_data

_LONGEST_CLAIM = 2_000


@dataclass(frozen=True, slots=True)
class Shown:
    """A text in its fence, and how many characters of it were left out."""

    text: str
    unseen: int

    @property
    def tokens(self) -> int:
        return tokens_of_data(self.text)


def claim(operator: str, summary: str, room: int) -> str:
    """What its proposer says of the change, in so many tokens; nothing where it has no room."""
    said = f"{operator}: {summary}"[:_LONGEST_CLAIM]

    def made(limit: int) -> str:
        return fenced("what its proposer says of the change", said, limit)

    return largest(made, len(said), room, tokens_of_data)


def shown(label: str, text: str, most_chars: int, room: int) -> Shown:
    """As much as both allow, a number of characters and one of tokens; what is left out is marked.

    Nothing is scrubbed out of it: a cheat must not hide in the gaps.
    """
    plain = untagged(text)

    def made(limit: int) -> str:
        return fenced(label, plain, min(limit, most_chars), exact=True)

    fitting = largest(made, min(len(plain), most_chars), room, tokens_of_data) or made(0)
    whole = fenced(label, plain, len(plain), exact=True)
    return Shown(fitting, max(len(whole) - len(fitting), 0))


def parameter_lines(before: Params, after: Params) -> Iterator[str]:
    """The parameters that change, a line each."""
    for name, value in after.items():
        if before.get(name) != value:
            yield f"parameter {name}: {before.get(name)!r} -> {value!r}"
