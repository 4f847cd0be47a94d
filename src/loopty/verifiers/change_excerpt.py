"""What the verifier is shown of a change, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopty.domain.space import Params
from loopty.kit.fence import escape_tags, fence_text
from loopty.kit.token_budget import longest_that_fits
from loopty.kit.token_count import tokens_of_data

_MAX_CLAIM_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class FencedExcerpt:
    """A text in its fence, and how many characters of it were left out."""

    text: str
    omitted_chars: int

    @property
    def tokens(self) -> int:
        return tokens_of_data(self.text)


def proposer_claim(operator: str, summary: str, max_tokens: int) -> str:
    """What its proposer says of the change, in so many tokens; nothing where it has no room."""
    said = f"{operator}: {summary}"[:_MAX_CLAIM_CHARS]

    def render(limit: int) -> str:
        return fence_text("what its proposer says of the change", said, limit)

    return longest_that_fits(render, len(said), max_tokens, tokens_of_data)


def excerpt(label: str, text: str, max_chars: int, max_tokens: int) -> FencedExcerpt:
    """As much as both allow, a number of characters and one of tokens; what is left out is marked.

    Nothing is scrubbed out of it: a cheat must not hide in the gaps.
    """
    plain = escape_tags(text)

    def render(limit: int) -> str:
        return fence_text(label, plain, min(limit, max_chars), exact=True)

    fitting = longest_that_fits(render, min(len(plain), max_chars), max_tokens, tokens_of_data) or render(0)
    whole = fence_text(label, plain, len(plain), exact=True)
    return FencedExcerpt(fitting, max(len(whole) - len(fitting), 0))


def parameter_lines(before: Params, after: Params) -> Iterator[str]:
    """The parameters that change, a line each."""
    for name, value in after.items():
        if before.get(name) != value:
            yield f"parameter {name}: {before.get(name)!r} -> {value!r}"
