"""The most of a text that fits into so many tokens."""

import pytest

from loopty.kit.fence import fence_text
from loopty.kit.token_budget import cut_to, longest_that_fits
from loopty.kit.token_count import tokens, tokens_of_data

TEXTS = ["plain words, and more of them\n" * 200, "1234567890" * 500, "量" * 2_000]


@pytest.mark.parametrize("counted", [tokens, tokens_of_data])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("room", [300, 900])
def test_what_is_cut_keeps_within_its_room_and_uses_most_of_it(text, room, counted):
    assert room // 2 < counted(cut_to(text, room, counted)) <= room
    made = longest_that_fits(lambda limit: fence_text("a file", text, limit), len(text), room, counted)
    assert room // 2 < counted(made) <= room


def test_what_fits_is_left_as_it_is():
    assert cut_to("a few words", 4) == "a few words"
    assert cut_to("", 4) == ""


def test_where_not_even_its_frame_fits_there_is_nothing():
    assert longest_that_fits(lambda limit: fence_text("a file", "x" * 900, limit), 900, 4) == ""
