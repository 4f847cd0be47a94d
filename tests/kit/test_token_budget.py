"""Cutting a text to a token budget."""

import pytest

from loopty.kit.foreign_text import fence_text
from loopty.kit.model_text import cut_to, longest_that_fits, tokens, tokens_of_data

TEXTS = ["plain words, and more of them\n" * 200, "1234567890" * 500, "量" * 2_000]


@pytest.mark.parametrize("count_tokens", [tokens, tokens_of_data])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("limit_tokens", [300, 900])
def test_a_cut_text_stays_within_its_budget_and_uses_most_of_it(text, limit_tokens, count_tokens):
    assert limit_tokens // 2 < count_tokens(cut_to(text, limit_tokens, count_tokens)) <= limit_tokens
    fenced = longest_that_fits(
        lambda limit: fence_text("a file", text, limit), len(text), limit_tokens, count_tokens
    )
    assert limit_tokens // 2 < count_tokens(fenced) <= limit_tokens


def test_a_text_that_fits_is_unchanged():
    assert cut_to("a few words", 4) == "a few words"
    assert cut_to("", 4) == ""


def test_the_text_is_empty_when_not_even_its_fence_fits():
    assert longest_that_fits(lambda limit: fence_text("a file", "x" * 900, limit), 900, 4) == ""
