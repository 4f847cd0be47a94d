"""Renders a change for the verifier as fenced data, cut to what its model can read."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.space import Params
from loopty.kit.fence import escape_tags, fence_text
from loopty.kit.records import Record
from loopty.kit.token_budget import longest_that_fits
from loopty.kit.token_count import tokens_of_data

_MAX_CLAIM_CHARS = 2_000


class FencedExcerpt(Record):
    """A fenced text, and the number of characters that were left out of it."""

    text: str
    omitted_chars: int

    @property
    def tokens(self) -> int:
        return tokens_of_data(self.text)


def proposer_claim(operator: str, summary: str, max_tokens: int) -> str:
    """The proposer's description of its change, fenced and cut to `max_tokens`; empty when nothing fits."""
    claim = f"{operator}: {summary}"[:_MAX_CLAIM_CHARS]

    def render(limit: int) -> str:
        return fence_text("what its proposer says of the change", claim, limit)

    return longest_that_fits(render, len(claim), max_tokens, tokens_of_data)


def excerpt(label: str, text: str, max_chars: int, max_tokens: int) -> FencedExcerpt:
    """The text, fenced and cut to both limits; a mark shows where characters were left out.

    Nothing is scrubbed out: a cheat must not hide in the gaps.
    """
    plain = escape_tags(text)

    def render(limit: int) -> str:
        return fence_text(label, plain, min(limit, max_chars), exact=True)

    shown = longest_that_fits(render, min(len(plain), max_chars), max_tokens, tokens_of_data) or render(0)
    whole = fence_text(label, plain, len(plain), exact=True)
    return FencedExcerpt(shown, max(len(whole) - len(shown), 0))


def parameter_lines(before: Params, after: Params) -> Iterator[str]:
    """One line for each parameter that changes."""
    for name, value in after.items():
        if before.get(name) != value:
            yield f"parameter {name}: {before.get(name)!r} -> {value!r}"
